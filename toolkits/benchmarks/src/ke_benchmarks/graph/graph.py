"""A small knowledge graph in memory: entities, relations with their templates, facts by relation and subject."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from attrs import field, frozen

from ke_benchmarks.graph.base import KnowledgeGraph, Link, Node, Subject, key_of, literal
from ke_core.plugin import BadData, Entity, Relation, loads


@frozen(kw_only=True, slots=False)
class Graph(KnowledgeGraph):
    """Facts over entities; relations are named by their key. ``sha256`` is of the file it was read from."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    nodes: Mapping[str, Node] = field(repr=False)
    links: Mapping[str, Link] = field(repr=False)
    triples: Mapping[str, Mapping[str, tuple[str, ...]]] = field(repr=False)

    def node(self, key: str) -> Node:
        """The entity of that key with its kind. Raises KeyError."""
        return self.nodes[key] if key in self.nodes else self._literal(key)

    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Every entity of that kind, by key."""
        return tuple(node.entity for node in self.nodes.values() if node.kind == kind)

    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """What the subject is related to; empty if the graph does not say."""
        return tuple(self.entity(key) for key in self.triples[relation].get(key_of(subject), ()))

    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Who is related to the object, by key."""
        return tuple(self.nodes[key].entity for key in self._backwards[relation].get(key_of(object_), ()))

    def subjects(self, relation: str) -> Iterator[Entity]:
        """Every entity that has facts of that relation, by key."""
        return (self.nodes[key].entity for key in self.triples[relation])

    def popularity(self, entity: Subject) -> int:
        """In how many facts the entity stands."""
        return self._mentions[key_of(entity)]

    def _literal(self, key: str) -> Node:
        found = literal(key)
        if found is None:
            raise KeyError(key)
        return found

    @cached_property
    def _backwards(self) -> dict[str, dict[str, list[str]]]:
        found: dict[str, dict[str, list[str]]] = {relation: {} for relation in self.triples}
        for relation, rows in self.triples.items():
            for subject, objects in rows.items():
                for name in objects:
                    found[relation].setdefault(name, []).append(subject)
        return found

    @cached_property
    def _mentions(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for rows in self.triples.values():
            for subject, objects in rows.items():
                found[subject] += len(objects)
                found.update(objects)
        return found


def parse(text: str, name: str) -> Graph:
    """The graph in a file's ``text``; ``name`` is the file's, for the error.

    Raises :class:`BadData` if it is not JSON, or a field is missing or of another type.
    """
    try:
        raw = loads(text)
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
        hint = "install ke-core again" if name == "atlas.json" else "see ke_benchmarks.graph for the format"
        raise BadData(f"{name} is not a knowledge graph: {wrong!r}", hint=hint) from wrong


def _node(key: str, raw: Mapping[str, Any]) -> Node:
    entity = Entity(label=raw["label"], aliases=tuple(raw.get("aliases", ())), id=key)
    return Node(entity=entity, kind=key.partition(":")[0], article=raw.get("article", False))


def _link(key: str, raw: Mapping[str, Any]) -> Link:
    rest = {name: value for name, value in raw.items() if name not in ("label", "cloze", "question")}
    return Link(
        relation=Relation(label=raw["label"], id=key, cloze=raw.get("cloze"), question=raw.get("question")), **rest
    )


FILE = "atlas.json"


@cache
def load_atlas() -> Graph:
    """The atlas, read once a process (about 10 ms)."""
    return parse(files("ke_benchmarks.graph").joinpath(FILE).read_text(encoding="utf-8"), FILE)
