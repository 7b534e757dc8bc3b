"""What is true, and what an edit makes true instead. Pure values: no torch, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal

from attrs import Attribute, field, frozen, validators

OMITTED: Mapping[str, bool] = {"omitted": True}
"""Metadata of a field that JSON leaves out at its default."""


Operation = Literal["add", "delete", "replace", "mixed", "none"]
SLOT = "{}"
NO_SUBJECT = "it names no subject, and this editor needs one"
"""Why an editor with ``needs_subject`` refuses an edit."""


def one_slot(_instance: object, attribute: Attribute[str], value: str) -> None:
    """Attrs validator: a template has exactly one ``{}``, where the subject goes."""
    if value.count(SLOT) != 1:
        raise ValueError(f"{attribute.name} needs exactly one {{}}: {value!r}")


@frozen(kw_only=True)
class Entity:
    """A thing with a name; two spellings of one thing are aliases, not two entities."""

    label: str = field(validator=validators.min_len(1))
    aliases: tuple[str, ...] = ()
    id: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The label, then every alias."""
        return (self.label, *self.aliases)

    @property
    def key(self) -> str:
        """What makes two mentions the same thing: the id where there is one, else the label."""
        return self.id if self.id is not None else self.label


@frozen(kw_only=True)
class Relation:
    """A relation, with its templates where the benchmark has them (each with one ``{}``)."""

    label: str = field(validator=validators.min_len(1))
    id: str | None = None
    cloze: str | None = field(default=None, validator=validators.optional(one_slot))
    question: str | None = field(default=None, validator=validators.optional(one_slot))

    @property
    def key(self) -> str:
        """The id where there is one, else the label."""
        return self.id if self.id is not None else self.label


@frozen(kw_only=True)
class Fact:
    """(subject, relation, objects): several objects for one-to-many relations, none for a deleted fact."""

    subject: Entity
    relation: Relation
    objects: tuple[Entity, ...] = ()
    text: str = ""

    @property
    def sentence(self) -> str:
        """``text``, else one made from the relation's cloze, else from the labels; empty for a fact without object."""
        if self.text or not self.objects:
            return self.text
        named = " and ".join(entity.label for entity in self.objects)
        if self.relation.cloze:
            return f"{self.relation.cloze.replace(SLOT, self.subject.label).rstrip()} {named}"
        return f"{self.subject.label}, {self.relation.label}: {named}"


@frozen(kw_only=True)
class Cloze:
    """A sentence that stops where the object starts; locate-and-edit methods need its subject span."""

    template: str = field(validator=one_slot)
    subject: str = field(validator=validators.min_len(1))

    @property
    def prompt(self) -> str:
        """The sentence with its subject; ``replace``, since a subject may hold braces."""
        return self.template.replace(SLOT, self.subject)

    @property
    def span(self) -> tuple[int, int]:
        """Character span of the subject in ``prompt``, end exclusive."""
        start = self.template.index(SLOT)
        return start, start + len(self.subject)


@frozen(kw_only=True)
class FreeForm:
    """A prompt and the text that should follow it: a paragraph, say, or a list of several lines. No subject is marked.

    ``old``: the text that followed before, if it is known.
    """

    prompt: str = field(validator=validators.min_len(1))
    target: str = field(validator=validators.min_len(1))
    old: str = ""


def _alone(instance: Edit, _attribute: Attribute[FreeForm | None], value: FreeForm | None) -> None:
    if value is not None and (instance.cloze or instance.before or instance.after):
        raise ValueError(f"edit {instance.id!r} has a free form, and a cloze or a fact: give one of them")


@frozen(kw_only=True)
class Edit:
    """One change of knowledge. Every edit has a ``statement``; the other fields depend on the benchmark.

    ``id`` is one per distinct statement, so that a memory holds a fact once however many cases edit it. ``free_form``
    replaces ``before``, ``after`` and ``cloze`` in an edit without a subject span.
    """

    id: str = field(validator=validators.min_len(1))
    statement: str = field(validator=validators.min_len(1))
    before: Fact | None = None
    after: Fact | None = None
    cloze: Cloze | None = None
    question: str | None = None
    free_form: FreeForm | None = field(default=None, validator=_alone, metadata=OMITTED)

    @property
    def prompt(self) -> str:
        """The text that ``target`` should follow; empty if the edit is a statement only."""
        if self.free_form is not None:
            return self.free_form.prompt.rstrip(" \t")
        return self.cloze.prompt.rstrip() if self.cloze is not None else ""

    @property
    def target(self) -> str:
        """The new text: that of the free form, else the new objects with commas between them."""
        if self.free_form is not None:
            return self.free_form.target.strip()
        return ", ".join(entity.label.strip() for entity in _objects(self.after))

    @property
    def old_target(self) -> str:
        """The text that ``prompt`` was followed by before; empty if it is unknown."""
        if self.free_form is not None:
            return self.free_form.old.strip()
        return ", ".join(entity.label.strip() for entity in _objects(self.before))

    @property
    def names_subject(self) -> bool:
        """Whether it says what the edit is about: in its cloze or in its fact."""
        return any(part is not None for part in (self.cloze, self.after, self.before))

    @property
    def added(self) -> tuple[Entity, ...]:
        """Objects that hold after the edit only."""
        return _minus(_objects(self.after), _objects(self.before))

    @property
    def removed(self) -> tuple[Entity, ...]:
        """Objects that held before the edit only."""
        return _minus(_objects(self.before), _objects(self.after))

    @property
    def retained(self) -> tuple[Entity, ...]:
        """Objects that hold before and after."""
        return _minus(_objects(self.after), self.added)

    @property
    def operation(self) -> Operation:
        """How the object set changes (CompKE section 3); ``replace`` swaps objects one for one."""
        if not self.added:
            return "delete" if self.removed else "none"
        if not self.removed:
            return "add"
        return "replace" if not self.retained and len(self.added) == len(self.removed) else "mixed"


def continued(prompt: str, target: str) -> str:
    """Return ``target`` as it follows ``prompt``: after one space, or after nothing where a line begins."""
    return target.strip() if prompt.endswith("\n") else f" {target.strip()}"


def distinct(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Each edit once, by id, in order of first mention (never a set: ties must not depend on hashing)."""
    first: dict[str, Edit] = {}
    for edit in edits:
        first.setdefault(edit.id, edit)
    return tuple(first.values())


def _objects(fact: Fact | None) -> tuple[Entity, ...]:
    return fact.objects if fact else ()


def _minus(these: tuple[Entity, ...], those: tuple[Entity, ...]) -> tuple[Entity, ...]:
    gone = {entity.key for entity in those}
    return tuple(entity for entity in these if entity.key not in gone)


@frozen(kw_only=True)
class SourcedEdit:
    """An edit, where it comes from (a page, a ticket, a line of a file) and its date (``2026-01-31``).

    ``paraphrases`` are other prompts that the new object should follow.
    """

    edit: Edit
    source: str
    date: str
    paraphrases: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """The text that the new object should follow; the statement of an edit that is nothing else."""
        return self.edit.prompt or self.edit.statement

    @property
    def target(self) -> str:
        """The new text; empty if the edit is a statement only."""
        return self.edit.target

    @property
    def old(self) -> str:
        """The text that followed before; empty if it is unknown."""
        return self.edit.old_target


Place = tuple[str, str]
"""Subject and relation of a fact, by key: what two facts that contradict one another have in common."""


class EditBank(Mapping[str, Edit]):
    """The active edits by id, and by what they are about: a path meets few of them, however many there are."""

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
                found.setdefault(_place(edit.after), {})[edit.id] = _object_keys(edit.after)
        return found


def contradicting(path: Iterable[Fact], bank: Mapping[str, Edit]) -> frozenset[str]:
    """Ids of the edits in ``bank`` that give a hop of ``path`` other objects than the path has.

    Things are the same by id where they have one, else by label (``Entity.key``, ``Relation.key``). An ``EditBank``
    is asked for what the path meets; any other mapping is gone through from end to end.
    """
    held = {_place(fact): _object_keys(fact) for fact in path}
    by_place = bank if isinstance(bank, EditBank) else EditBank(bank.values())
    return frozenset(
        name for place, objects in held.items() for name, new in by_place.about(place).items() if new != objects
    )


def _place(fact: Fact) -> Place:
    return fact.subject.key, fact.relation.key


def _object_keys(fact: Fact) -> frozenset[str]:
    return frozenset(entity.key for entity in fact.objects)
