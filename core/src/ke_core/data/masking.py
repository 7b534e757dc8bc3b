"""Which edits contradict the facts a case rests on: MQuAKE-Remastered's dynamic masking, in one place.

B(c) = { e in B : no hop (s, r, o) on the path of c has e.s = s, e.r = r and e.o* != o }   (its section 4.1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ke_core.data.facts import Edit, Fact


def contradicting(path: Iterable[Fact], bank: Mapping[str, Edit]) -> frozenset[str]:
    """Ids of the edits in ``bank`` that give a hop of ``path`` other objects than the path has.

    Things are the same by id where they have one, else by label (``Entity.key``, ``Relation.key``).
    """
    held = {(fact.subject.key, fact.relation.key): {o.key for o in fact.objects} for fact in path}
    hidden = []
    for edit in bank.values():
        after = edit.after
        if after is None:
            continue
        objects = held.get((after.subject.key, after.relation.key))
        if objects is not None and objects != {o.key for o in after.objects}:
            hidden.append(edit.id)
    return frozenset(hidden)
