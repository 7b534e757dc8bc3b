"""Which edits contradict the facts a case rests on: MQuAKE-Remastered's dynamic masking, in one place.

B(c) = { e in B : no hop (s, r, o) on the path of c has e.s = s, e.r = r and e.o* != o }   (its section 4.1)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from ke_core.data.facts import Edit, Fact

Place = tuple[str, str]
"""Subject and relation of a fact, by key: what two facts that contradict one another have in common."""


class EditBank(Mapping[str, Edit]):
    """The edits in force by id, and by what they are about: a path meets few of them, however many there are."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        self._edits = {edit.id: edit for edit in edits}

    def __getitem__(self, key: str) -> Edit:
        return self._edits[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._edits)

    def __len__(self) -> int:
        return len(self._edits)

    def about(self, place: Place) -> Mapping[str, frozenset[str]]:
        """Every edit of that subject and relation, by id, with its objects' keys."""
        return self._about.get(place, {})

    @cached_property
    def _about(self) -> dict[Place, dict[str, frozenset[str]]]:
        """Made when a path is first compared: most runs hide nothing."""
        found: dict[Place, dict[str, frozenset[str]]] = {}
        for edit in self._edits.values():
            if edit.after is not None:
                found.setdefault(_place(edit.after), {})[edit.id] = _objects(edit.after)
        return found


def contradicting(path: Iterable[Fact], bank: Mapping[str, Edit]) -> frozenset[str]:
    """Ids of the edits in ``bank`` that give a hop of ``path`` other objects than the path has.

    Things are the same by id where they have one, else by label (``Entity.key``, ``Relation.key``). An ``EditBank``
    is asked for what the path meets; any other mapping is gone through from end to end.
    """
    held = {_place(fact): _objects(fact) for fact in path}
    by_place = bank if isinstance(bank, EditBank) else EditBank(bank.values())
    return frozenset(
        name for place, objects in held.items() for name, new in by_place.about(place).items() if new != objects
    )


def _place(fact: Fact) -> Place:
    return fact.subject.key, fact.relation.key


def _objects(fact: Fact) -> frozenset[str]:
    return frozenset(entity.key for entity in fact.objects)
