"""A small knowledge graph in memory: entities, relations with their templates, facts by relation and subject."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from attrs import field, frozen

from ke_core.data.facts import SLOT, Cloze, Entity, Fact, Relation
from ke_core.errors import BadData

Subject = str | Entity
Word = Literal["cloze", "question"]


@frozen(kw_only=True)
class Node:
    """An entity, its kind (``country``, ``city`` ...), and whether a sentence says "the" before it."""

    entity: Entity
    kind: str
    article: bool = False


@frozen(kw_only=True)
class Link:
    """A relation: the kinds it joins, whether a subject has one object only, which relation says it backwards."""

    relation: Relation
    subject: str
    object: str
    functional: bool = True
    inverse: str | None = None


@frozen(kw_only=True)
class Graph:
    """Facts over entities; relations are named by their key. ``sha256`` is of the file it was read from."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    nodes: Mapping[str, Node] = field(repr=False)
    links: Mapping[str, Link] = field(repr=False)
    triples: Mapping[str, Mapping[str, tuple[str, ...]]] = field(repr=False)

    def entity(self, key: str) -> Entity:
        """The entity of that id. Raises KeyError."""
        return self.nodes[key].entity

    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Every entity of that kind, by id."""
        return tuple(node.entity for node in self.nodes.values() if node.kind == kind)

    def relation(self, name: str) -> Relation:
        """The relation of that name. Raises KeyError."""
        return self.links[name].relation

    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """What the subject is related to; empty if the graph does not say."""
        found = self.triples[relation].get(_key(subject), ())
        return tuple(self.nodes[key].entity for key in found)

    def object(self, subject: Subject, relation: str) -> Entity | None:
        """The only object, or None where there is none or more than one."""
        found = self.objects(subject, relation)
        return found[0] if len(found) == 1 else None

    def subjects(self, relation: str) -> Iterator[Entity]:
        """Every entity that has facts of that relation, by id."""
        return (self.nodes[key].entity for key in self.triples[relation])

    def fact(self, subject: Subject, relation: str) -> Fact:
        """The subject's fact of that relation, with its statement. Raises KeyError if the graph has none."""
        entity, found = self.entity(_key(subject)), self.objects(subject, relation)
        if not found:
            raise KeyError((entity.id, relation))
        return Fact(
            subject=entity,
            relation=self.relation(relation),
            objects=found,
            text=f"{self.cloze(entity, relation).prompt} {', '.join(self.mention(o) for o in found)}",
        )

    def facts(self, relation: str) -> Iterator[Fact]:
        """Every fact of that relation, by subject id."""
        return (self.fact(key, relation) for key in self.triples[relation])

    def mention(self, entity: Subject) -> str:
        """The label as it stands inside a sentence: "Japan", "the Netherlands"."""
        node = self.nodes[_key(entity)]
        return f"the {node.entity.label}" if node.article else node.entity.label

    def cloze(self, subject: Subject, relation: str) -> Cloze:
        """The relation's cloze for that subject; an article belongs to the template, not to the subject."""
        node = self.nodes[_key(subject)]
        return Cloze(template=self._template(node, relation, "cloze"), subject=node.entity.label)

    def question(self, subject: Subject, relation: str) -> str:
        """The relation's question about that subject."""
        node = self.nodes[_key(subject)]
        return self._template(node, relation, "question").replace(SLOT, node.entity.label)

    def _template(self, node: Node, relation: str, word: Word) -> str:
        template: str | None = getattr(self.relation(relation), word)
        if template is None:
            raise KeyError((relation, word))
        if not node.article:
            return template
        return template.replace(SLOT, f"The {SLOT}" if template.startswith(SLOT) else f"the {SLOT}")


def parse(text: str, name: str) -> Graph:
    """The graph in a file's ``text``; ``name`` is the file's, for the error.

    Raises :class:`BadData` if it is not JSON, or a field is missing or of another type.
    """
    try:
        raw = json.loads(text)
        return Graph(
            name=raw["name"],
            version=raw["version"],
            sources=tuple(raw["sources"]),
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            nodes={key: _node(key, value) for key, value in raw["entities"].items()},
            links={key: _link(key, value) for key, value in raw["relations"].items()},
            triples={
                relation: {subject: tuple(objects) for subject, objects in rows.items()}
                for relation, rows in raw["facts"].items()
            },
        )
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        hint = "install ke-core again" if name == "atlas.json" else "see ke_core.graph for the format"
        raise BadData(f"{name} is not a knowledge graph: {wrong!r}", hint=hint) from wrong


def _node(key: str, raw: Mapping[str, Any]) -> Node:
    entity = Entity(label=raw["label"], aliases=tuple(raw.get("aliases", ())), id=key)
    return Node(entity=entity, kind=key.partition(":")[0], article=raw.get("article", False))


def _link(key: str, raw: Mapping[str, Any]) -> Link:
    rest = {name: value for name, value in raw.items() if name not in ("label", "cloze", "question")}
    return Link(
        relation=Relation(label=raw["label"], id=key, cloze=raw.get("cloze"), question=raw.get("question")), **rest
    )


def _key(subject: Subject) -> str:
    if isinstance(subject, str):
        return subject
    return subject.key
