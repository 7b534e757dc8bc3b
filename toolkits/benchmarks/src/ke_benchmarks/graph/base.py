"""The interface of a knowledge graph for builders, whether its facts are in memory, in a store, or at an endpoint."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from attrs import frozen

from ke_core.plugin import SLOT, BadData, Cloze, Entity, Fact, Relation

Subject = str | Entity
Word = Literal["cloze", "question"]
NOMINAL = re.compile(r"The (?P<noun>.*\{\}.*?) (?:is|are|was|were)(?: the)?\Z")
LITERALS = ("number", "date", "text")
"""Types of objects that are values, not entities: ``number:67391582``, ``date:1999-05-01``, ``text:Liberty``."""


@frozen(kw_only=True)
class Node:
    """An entity, its type (``country``, ``city`` ...), and whether a sentence needs "the" before it."""

    entity: Entity
    kind: str
    article: bool = False


@frozen(kw_only=True)
class Link:
    """A relation: the types it joins, whether a subject has one object only, and its inverse.

    ``subject`` and ``object`` are types. The object may be a literal (``LITERALS``), with a ``unit`` if it is a number.
    """

    relation: Relation
    subject: str
    object: str
    functional: bool = True
    inverse: str | None = None
    unit: str = ""


class KnowledgeGraph(ABC):
    """Facts about entities. Entities and relations are identified by keys, and everything has a fixed order."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    links: Mapping[str, Link]

    # --- implemented by each class of graph ---------------------------------------------------------------

    @abstractmethod
    def node(self, key: str) -> Node:
        """Return the entity of that key with its type; a literal is its own node. Raises KeyError."""

    @abstractmethod
    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Return every entity of that type, by key."""

    @abstractmethod
    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """Return the objects of the subject; empty if the graph has none."""

    @abstractmethod
    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Return the subjects of the object, by key: the inverse of ``objects``."""

    @abstractmethod
    def subjects(self, relation: str) -> Iterator[Entity]:
        """Yield every entity that has facts of that relation, by key."""

    @abstractmethod
    def popularity(self, entity: Subject) -> int:
        """Return the number of facts with the entity as subject or object."""

    # --- derived -----------------------------------------------------------------------------------------

    def things(self) -> Iterator[Entity]:
        """Yield every entity with a fact, by type. Literals are not included."""
        for kind in dict.fromkeys(kind for link in self.links.values() for kind in (link.subject, link.object)):
            yield from self.entities(kind)

    def entity(self, key: str) -> Entity:
        """Return the entity of that key. Raises KeyError."""
        return self.node(key).entity

    def kind(self, entity: Subject) -> str:
        """Return the type: ``country``, ``city``, ``number`` ... Raises KeyError."""
        return self.node(key_of(entity)).kind

    def relation(self, name: str) -> Relation:
        """Return the relation of that name. Raises KeyError."""
        return self.links[name].relation

    def relations(self, names: str) -> tuple[str, ...]:
        """Return the relations of a list with commas; empty for an empty text. Raises BadData for an unknown one."""
        found = tuple(name.strip() for name in names.split(",") if name.strip())
        for name in found:
            if name not in self.links:
                raise BadData(f"{self.name} has no relation {name!r}", hint=f"it has: {', '.join(self.links)}")
        return found

    def object(self, subject: Subject, relation: str) -> Entity | None:
        """Return the only object, or None if there is none or more than one."""
        found = self.objects(subject, relation)
        return found[0] if len(found) == 1 else None

    def number(self, subject: Subject, relation: str) -> float | None:
        """Return the only object as a number (population, area ...), or None."""
        found = self.object(subject, relation)
        return float(found.key.partition(":")[2]) if found and found.key.startswith("number:") else None

    def fact(self, subject: Subject, relation: str) -> Fact:
        """Return the subject's fact of that relation, with its statement. Raises KeyError if there is none."""
        entity, found = self.entity(key_of(subject)), self.objects(subject, relation)
        if not found:
            raise KeyError((entity.id, relation))
        return self.stated(entity, relation, found)

    def stated(self, subject: Entity, relation: str, objects: tuple[Entity, ...]) -> Fact:
        """Return a fact, true or counterfactual, with its statement: the relation's cloze, then the objects."""
        said = ", ".join(self.mention(found) for found in objects)
        return Fact(
            subject=subject,
            relation=self.relation(relation),
            objects=objects,
            text=f"{self.cloze(subject, relation).prompt} {said}".rstrip(),
        )

    def facts(self, relation: str) -> Iterator[Fact]:
        """Yield every fact of that relation, by subject."""
        return (self.fact(subject, relation) for subject in self.subjects(relation))

    def mention(self, entity: Subject) -> str:
        """Return the label as used inside a sentence: "Japan", "the Netherlands"."""
        node = self.node(key_of(entity))
        return f"the {node.entity.label}" if node.article else node.entity.label

    def cloze(self, subject: Subject, relation: str) -> Cloze:
        """Return the relation's cloze for that subject. An article is part of the template, not of the subject."""
        node = self.node(key_of(subject))
        return Cloze(template=self._template(node, relation, "cloze"), subject=node.entity.label)

    def question(self, subject: Subject, relation: str) -> str:
        """Return the relation's question about that subject."""
        node = self.node(key_of(subject))
        return self._template(node, relation, "question").replace(SLOT, node.entity.label)

    def noun(self, relation: str) -> str | None:
        """Return a noun for the objects, ``products of {}``, if the cloze begins with it: "The products of {} are"."""
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
    """Return the key of an entity, or the given key."""
    return entity if isinstance(entity, str) else entity.key


def contains_name(text: str, entities: Iterable[Entity]) -> bool:
    """Return whether the text contains a name of one of the entities, as whole words: "Kuwait" in "Kuwait City"."""
    said = _words(text)
    return any(name.strip() and name in said for entity in entities for name in map(_words, entity.names))


def _words(text: str) -> str:
    return " ".join(("", *re.findall(r"\w+", text.casefold()), ""))


def literal(key: str) -> Node | None:
    """Return the node of a literal's key, or None for an entity's key. A number is its own label."""
    kind, colon, value = key.partition(":")
    if not colon or not value or kind not in LITERALS:
        return None
    return Node(entity=Entity(label=value, id=key), kind=kind)
