"""Entities, facts and edits. Pure values: no torch, no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

from attrs import Attribute, field, frozen, validators

OMITTED: Mapping[str, bool] = {"omitted": True}
"""Metadata of a field that is omitted from JSON if it has its default value."""
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts without spaces between words, as ranges in a regular expression: Thai, Lao, Burmese, Khmer, Kana, Han."""
_MARKS = "\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"  # Chinese and Japanese punctuation
_ENDS_UNSPACED = re.compile(rf"(?:[{UNSPACED}]\W*|[{_MARKS}]\s*)\Z")
_JOINS_UNSPACED = re.compile(rf"[\d\W]|.*[{UNSPACED}]", re.DOTALL)

Operation = Literal["add", "delete", "replace", "mixed", "none"]
SLOT = "{}"
NO_SUBJECT = "it names no subject, and this editor needs one"
"""Why an editor with ``needs_subject`` refuses an edit."""


def one_slot(_instance: object, attribute: Attribute[str], value: str) -> None:
    """Attrs validator: a template has exactly one ``{}``, the place of the subject."""
    if value.count(SLOT) != 1:
        raise ValueError(f"{attribute.name} needs exactly one {{}}: {value!r}")


@frozen(kw_only=True)
class Entity:
    """Something with a name. Other spellings of the name are aliases."""

    label: str = field(validator=validators.min_len(1))
    aliases: tuple[str, ...] = ()
    id: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The label and all aliases."""
        return (self.label, *self.aliases)

    @property
    def key(self) -> str:
        """The id, or the label if there is no id. Equal keys mean the same entity."""
        return self.id if self.id is not None else self.label


@frozen(kw_only=True)
class Relation:
    """A relation, with a cloze and a question template if the benchmark has them. Each has one ``{}``."""

    label: str = field(validator=validators.min_len(1))
    id: str | None = None
    cloze: str | None = field(default=None, validator=validators.optional(one_slot))
    question: str | None = field(default=None, validator=validators.optional(one_slot))

    @property
    def key(self) -> str:
        """The id, or the label if there is no id."""
        return self.id if self.id is not None else self.label


@frozen(kw_only=True)
class Fact:
    """A subject, a relation and its objects: several for one-to-many relations, none for a deleted fact."""

    subject: Entity
    relation: Relation
    objects: tuple[Entity, ...] = ()
    text: str = ""

    @property
    def sentence(self) -> str:
        """The fact as a sentence: ``text``, or made from the cloze or the labels. Empty without object."""
        if self.text or not self.objects:
            return self.text
        named = " and ".join(entity.label for entity in self.objects)
        if self.relation.cloze:
            before = self.relation.cloze.replace(SLOT, self.subject.label).rstrip()
            return f"{before}{continued(before, named)}"
        return f"{self.subject.label}, {self.relation.label}: {named}"


@frozen(kw_only=True)
class Cloze:
    """A sentence that stops before its object. Locate-and-edit methods need its subject span."""

    template: str = field(validator=one_slot)
    subject: str = field(validator=validators.min_len(1))

    @property
    def prompt(self) -> str:
        """The sentence with its subject. ``str.format`` would fail for a subject with braces."""
        return self.template.replace(SLOT, self.subject)

    @property
    def span(self) -> tuple[int, int]:
        """Character span of the subject in ``prompt``, end exclusive."""
        start = self.template.index(SLOT)
        return start, start + len(self.subject)


@frozen(kw_only=True)
class FreeForm:
    """A prompt and the text that should follow it, for example a paragraph or several lines. No subject is marked.

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

    Equal statements have the same ``id``, so a memory holds each fact once. ``free_form`` replaces ``before``,
    ``after`` and ``cloze`` in an edit without a subject span.
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
        """The text that ``target`` should follow. Empty if the edit is only a statement."""
        if self.free_form is not None:
            return self.free_form.prompt.rstrip(" \t")
        return self.cloze.prompt.rstrip() if self.cloze is not None else ""

    @property
    def target(self) -> str:
        """The new text: the target of the free form, or the new objects, separated by commas."""
        if self.free_form is not None:
            return self.free_form.target.strip()
        return ", ".join(entity.label.strip() for entity in _objects(self.after))

    @property
    def old_target(self) -> str:
        """The text that followed ``prompt`` before the edit. Empty if it is unknown."""
        if self.free_form is not None:
            return self.free_form.old.strip()
        return ", ".join(entity.label.strip() for entity in _objects(self.before))

    @property
    def names_subject(self) -> bool:
        """Whether the edit names its subject, in its cloze or in its fact."""
        return any(part is not None for part in (self.cloze, self.after, self.before))

    @property
    def added(self) -> tuple[Entity, ...]:
        """Objects that are right only after the edit."""
        return _minus(_objects(self.after), _objects(self.before))

    @property
    def removed(self) -> tuple[Entity, ...]:
        """Objects that are right only before the edit."""
        return _minus(_objects(self.before), _objects(self.after))

    @property
    def retained(self) -> tuple[Entity, ...]:
        """Objects that are right before and after the edit."""
        return _minus(_objects(self.after), self.added)

    @property
    def operation(self) -> Operation:
        """How the set of objects changes (CompKE section 3). ``replace`` exchanges all objects for as many others."""
        if not self.added:
            return "delete" if self.removed else "none"
        if not self.removed:
            return "add"
        return "replace" if not self.retained and len(self.added) == len(self.removed) else "mixed"


def continued(prompt: str, target: str) -> str:
    """Return ``target`` as a continuation of ``prompt``: after one space.

    There is none at the start of a line, and none if ``prompt`` ends in a script without spaces between words
    (``UNSPACED``) or in its punctuation, unless ``target`` begins with a word and has no character of such a script.
    """
    target = target.strip()
    joined = _ENDS_UNSPACED.search(prompt) and _JOINS_UNSPACED.match(target)
    return target if joined or prompt.endswith("\n") else f" {target}"


def distinct(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return each edit once, by id, in order of first occurrence."""
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
        """The text that the new object should follow, or the statement if the edit has nothing else."""
        return self.edit.prompt or self.edit.statement

    @property
    def target(self) -> str:
        """The new text. Empty if the edit is only a statement."""
        return self.edit.target

    @property
    def old(self) -> str:
        """The text that followed before the edit. Empty if it is unknown."""
        return self.edit.old_target


Place = tuple[str, str]
"""The keys of a fact's subject and relation. Facts that contradict each other have the same place."""


class EditBank(dict[str, Edit]):
    """The active edits by id, with an index by subject and relation. It must not be changed."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        super().__init__((edit.id, edit) for edit in edits)

    @cached_property
    def about(self) -> dict[Place, dict[str, frozenset[str]]]:
        """The index. It is built at the first use, because most runs hide no edits."""
        found: dict[Place, dict[str, frozenset[str]]] = {}
        for edit in self.values():
            if edit.after is not None:
                found.setdefault(_place(edit.after), {})[edit.id] = _object_keys(edit.after)
        return found


def contradicting(path: Iterable[Fact], bank: Mapping[str, Edit]) -> frozenset[str]:
    """Return the ids of the edits in ``bank`` that contradict a hop of ``path``: same place, other objects.

    Entities and relations are compared by ``key``. An ``EditBank`` answers from its index; any other mapping is
    searched completely.
    """
    held = {_place(fact): _object_keys(fact) for fact in path}
    by_place = bank if isinstance(bank, EditBank) else EditBank(bank.values())
    return frozenset(
        name for place, objects in held.items() for name, new in by_place.about.get(place, {}).items() if new != objects
    )


def _place(fact: Fact) -> Place:
    return fact.subject.key, fact.relation.key


def _object_keys(fact: Fact) -> frozenset[str]:
    return frozenset(entity.key for entity in fact.objects)
