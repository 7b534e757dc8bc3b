"""The published JSON, validated field by field. Unused fields are ignored."""

from __future__ import annotations

from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

from ke_benchmarks import has_label, not_blank

ITEM = "wikibase-item"
"""The datatype of a tail that is an entity."""


@frozen(kw_only=True)
class UnieditEntity:
    """An entity."""

    id: str = field(validator=not_blank)
    label: str
    aliases: tuple[str, ...] = ()


@frozen(kw_only=True)
class UnieditProperty:
    """A relation."""

    id: str = field(validator=not_blank)


@frozen(kw_only=True)
class UnieditTail:
    """The object of a fact: an entity, a quantity, a date ..., depending on ``datatype``; a text for strings."""

    datatype: str
    value: Any = field(validator=validators.instance_of((dict, str)))

    @property
    def item(self) -> str:
        """The id of the entity; empty if the object is a value."""
        return str(self._entity.get("id", ""))

    @property
    def names(self) -> tuple[str, ...]:
        """Label and aliases of the entity; empty if the object is a value."""
        aliases = self._entity.get("aliases") or ()
        found = (self._entity.get("label"), *(aliases if isinstance(aliases, list) else ()))
        return tuple(name for name in found if isinstance(name, str) and name.strip())

    @property
    def _entity(self) -> dict[str, Any]:
        return self.value if self.datatype == ITEM and isinstance(self.value, dict) else {}


def _entity_has_label(instance: UnieditFact, attribute: Attribute[str], value: str) -> None:
    """Reject a bare id in place of an entity's label. A value, such as the string "P1127", may look like an id."""
    if instance.tail_entity.datatype == ITEM and value.strip():
        has_label(instance, attribute, value)


@frozen(kw_only=True)
class UnieditFact:
    """A fact with its cloze: the edit, or a hop of a question."""

    prompt: str
    target: str = field(validator=_entity_has_label)
    subject: str
    head_entity: UnieditEntity
    property: UnieditProperty
    tail_entity: UnieditTail


@frozen(kw_only=True)
class UnieditHop(UnieditFact):
    """One hop. ``path``: the codes of its start, relation and end; those of the edit are h_e, r_e and t_e."""

    path: tuple[str, ...]

    @property
    def is_edit(self) -> bool:
        """Whether it is the edited fact."""
        return self.path == ("h_e", "r_e", "t_e")


@frozen(kw_only=True)
class UnieditChain:
    """A chain of hops. ``paths``: for each hop its start, relation, end, direction (f, b) and s or m."""

    paths: tuple[tuple[str, ...], ...]
    one_hops: tuple[UnieditHop, ...]


@frozen(kw_only=True)
class UnieditQuestion:
    """A question about one chain, or (``double``) whether two chains end at the same entity."""

    path_type: Literal["single", "double"]
    prompt: str = field(validator=not_blank)
    target: str = field(validator=not_blank)
    paths: tuple[tuple[str, ...], ...] = ()
    one_hops: tuple[UnieditHop, ...] = ()
    single_path1: UnieditChain | None = None
    single_path2: UnieditChain | None = None

    def __attrs_post_init__(self) -> None:
        """Reject a question without the chains of its type."""
        if self.path_type == "single" and not self.paths:
            raise ValueError("paths: missing or empty")
        if self.path_type == "double" and (self.single_path1 is None or self.single_path2 is None):
            raise ValueError("single_path1 or single_path2: missing")

    @property
    def chains(self) -> tuple[UnieditChain, ...]:
        """The one or two chains."""
        if self.path_type == "single":
            return (UnieditChain(paths=self.paths, one_hops=self.one_hops),)
        return tuple(chain for chain in (self.single_path1, self.single_path2) if chain is not None)

    @property
    def hops(self) -> tuple[UnieditHop, ...]:
        """The hops of all chains."""
        return tuple(hop for chain in self.chains for hop in chain.one_hops)


@frozen(kw_only=True)
class UnieditRecord:
    """One record. ``generality`` and ``locality``: questions by number."""

    id: str
    edit: UnieditFact
    generality: dict[str, UnieditQuestion]
    locality: dict[str, UnieditQuestion]

    @property
    def is_complete(self) -> bool:
        """Whether the edit and every hop of its questions have a prompt, a target and a subject."""
        questions = (*self.generality.values(), *self.locality.values())
        facts = (self.edit, *(hop for question in questions for hop in question.hops))
        return all(text.strip() for fact in facts for text in (fact.prompt, fact.target, fact.subject))


def numbered(content: dict[str, Any]) -> list[Any]:
    """Return the records of a file, which maps an id to each record."""
    return [{"id": name, **record} if isinstance(record, dict) else record for name, record in content.items()]
