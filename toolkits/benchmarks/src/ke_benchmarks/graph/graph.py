"""A small knowledge graph in memory: entities, relations with their templates, facts by relation and subject."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from attrs import evolve, field, frozen

from ke_benchmarks.graph.base import KnowledgeGraph, Link, Node, Subject, key_of, literal
from ke_core.plugin import BadData, Entity, Relation, loads


@frozen(kw_only=True, slots=False)
class Graph(KnowledgeGraph):
    """Facts about entities; relations are identified by their key. ``sha256``: checksum of the source file."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    nodes: Mapping[str, Node] = field(repr=False)
    links: Mapping[str, Link] = field(repr=False)
    triples: Mapping[str, Mapping[str, tuple[str, ...]]] = field(repr=False)

    def node(self, key: str) -> Node:
        """Return the entity of that key with its type. Raises KeyError."""
        return self.nodes[key] if key in self.nodes else self._literal(key)

    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Return every entity of that type, by key."""
        return tuple(node.entity for node in self.nodes.values() if node.kind == kind)

    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """Return the objects of the subject; empty if the graph has none."""
        return tuple(self.entity(key) for key in self.triples[relation].get(key_of(subject), ()))

    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Return the subjects of the object, by key."""
        return tuple(self.nodes[key].entity for key in self._backwards[relation].get(key_of(object_), ()))

    def subjects(self, relation: str) -> Iterator[Entity]:
        """Yield every entity that has facts of that relation, by key."""
        return (self.nodes[key].entity for key in self.triples[relation])

    def popularity(self, entity: Subject) -> int:
        """Return the number of facts of the entity."""
        return self._mentions[key_of(entity)]

    def with_nodes(self, nodes: Mapping[str, Node]) -> Graph:
        """Return the graph with further entities, by key. They have no facts."""
        return evolve(self, nodes={**self.nodes, **nodes})

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
    """Parse the ``text`` of a graph file; ``name`` is the file's, for errors.

    Raises :class:`BadData` if it is not JSON, or a field is missing or has the wrong type.
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
        hint = "reinstall ke-benchmarks" if name == "atlas.json" else "ke_benchmarks.graph documents the format"
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
    """Return the atlas, read once per process (about 10 ms)."""
    return parse(files("ke_benchmarks.graph").joinpath(FILE).read_text(encoding="utf-8"), FILE)
