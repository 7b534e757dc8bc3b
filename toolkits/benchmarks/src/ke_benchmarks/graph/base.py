"""What a builder asks of a knowledge graph, wherever its facts lie: in memory, in a store, at an endpoint."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen

from ke_core.plugin import SLOT, Cloze, Entity, Fact, Relation

Subject = str | Entity
Word = Literal["cloze", "question"]
NOMINAL = re.compile(r"The (?P<noun>.*\{\}.*?) (?:is|are|was|were)(?: the)?\Z")
LITERALS = ("number", "date", "text")
"""Kinds of objects that are values, not things: ``number:67391582``, ``date:1999-05-01``, ``text:Liberty``."""


@frozen(kw_only=True)
class Node:
    """An entity, its kind (``country``, ``city`` ...), and whether a sentence says "the" before it."""

    entity: Entity
    kind: str
    article: bool = False


@frozen(kw_only=True)
class Link:
    """A relation: the kinds it joins, whether a subject has one object only, which relation says it backwards.

    ``subject`` and ``object`` are kinds; the object may be a literal (``LITERALS``), of ``unit`` if it is a number.
    """

    relation: Relation
    subject: str
    object: str
    functional: bool = True
    inverse: str | None = None
    unit: str = ""


class KnowledgeGraph(ABC):
    """Facts over entities. Entities and relations are named by their keys; everything comes in a fixed order."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    links: Mapping[str, Link]

    # --- what each kind of graph answers its own way -----------------------------------------------------

    @abstractmethod
    def node(self, key: str) -> Node:
        """The entity of that key with its kind; a literal is its own node. Raises KeyError."""

    @abstractmethod
    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Every entity of that kind, by key."""

    @abstractmethod
    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """What the subject is related to; empty if the graph does not say."""

    @abstractmethod
    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Who is related to the object, by key: ``objects`` asked backwards."""

    @abstractmethod
    def subjects(self, relation: str) -> Iterator[Entity]:
        """Every entity that has facts of that relation, by key."""

    @abstractmethod
    def popularity(self, entity: Subject) -> int:
        """In how many facts the entity stands, as subject or as object."""

    # --- what follows ------------------------------------------------------------------------------------

    def entity(self, key: str) -> Entity:
        """The entity of that key. Raises KeyError."""
        return self.node(key).entity

    def kind(self, entity: Subject) -> str:
        """``country``, ``city``, ``number`` ... Raises KeyError."""
        return self.node(key_of(entity)).kind

    def relation(self, name: str) -> Relation:
        """The relation of that name. Raises KeyError."""
        return self.links[name].relation

    def object(self, subject: Subject, relation: str) -> Entity | None:
        """The only object, or None where there is none or more than one."""
        found = self.objects(subject, relation)
        return found[0] if len(found) == 1 else None

    def number(self, subject: Subject, relation: str) -> float | None:
        """The only object as a number (population, area ...), or None."""
        found = self.object(subject, relation)
        return float(found.key.partition(":")[2]) if found and found.key.startswith("number:") else None

    def fact(self, subject: Subject, relation: str) -> Fact:
        """The subject's fact of that relation, with its statement. Raises KeyError if the graph has none."""
        entity, found = self.entity(key_of(subject)), self.objects(subject, relation)
        if not found:
            raise KeyError((entity.id, relation))
        return self.stated(entity, relation, found)

    def stated(self, subject: Entity, relation: str, objects: tuple[Entity, ...]) -> Fact:
        """A fact, true or counterfactual, with its statement: the relation's cloze, then the objects."""
        said = ", ".join(self.mention(found) for found in objects)
        return Fact(
            subject=subject,
            relation=self.relation(relation),
            objects=objects,
            text=f"{self.cloze(subject, relation).prompt} {said}".rstrip(),
        )

    def facts(self, relation: str) -> Iterator[Fact]:
        """Every fact of that relation, by subject."""
        return (self.fact(subject, relation) for subject in self.subjects(relation))

    def mention(self, entity: Subject) -> str:
        """The label as it stands inside a sentence: "Japan", "the Netherlands"."""
        node = self.node(key_of(entity))
        return f"the {node.entity.label}" if node.article else node.entity.label

    def cloze(self, subject: Subject, relation: str) -> Cloze:
        """The relation's cloze for that subject; an article belongs to the template, not to the subject."""
        node = self.node(key_of(subject))
        return Cloze(template=self._template(node, relation, "cloze"), subject=node.entity.label)

    def question(self, subject: Subject, relation: str) -> str:
        """The relation's question about that subject."""
        node = self.node(key_of(subject))
        return self._template(node, relation, "question").replace(SLOT, node.entity.label)

    def noun(self, relation: str) -> str | None:
        """What the relation leads to, ``products of {}``, if its cloze begins with that: "The products of {} are"."""
        found = NOMINAL.match(self.relation(relation).cloze or "")
        return found["noun"] if found else None

    def _template(self, node: Node, relation: str, word: Word) -> str:
        template: str | None = getattr(self.relation(relation), word)
        if template is None:
            raise KeyError((relation, word))
        if not node.article:
            return template
        return template.replace(SLOT, f"The {SLOT}" if template.startswith(SLOT) else f"the {SLOT}")


def key_of(entity: Subject) -> str:
    """The key of what is given as an entity or as a key."""
    return entity if isinstance(entity, str) else entity.key


def literal(key: str) -> Node | None:
    """The node of a literal's key, or None if the key names a thing. A number is its own label."""
    kind, colon, value = key.partition(":")
    if not colon or not value or kind not in LITERALS:
        return None
    return Node(entity=Entity(label=value, id=key), kind=kind)
