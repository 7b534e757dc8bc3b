"""Two versions of one graph: facts of the older one, entities and names of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph, Link, Node
from ke_benchmarks.graph.base import Subject
from ke_core.plugin import Entity


@frozen(kw_only=True, slots=False)
class TwoSnapshots(KnowledgeGraph):
    """A graph that combines two versions. Create it with ``TwoSnapshots.of(older, newer)``."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    links: Mapping[str, Link]
    older: KnowledgeGraph
    newer: KnowledgeGraph

    @classmethod
    def of(cls, older: KnowledgeGraph, newer: KnowledgeGraph) -> Self:
        """Combine two graphs. Relations and their phrases come from the older one."""
        return cls(
            name=f"{older.name} and {newer.name}",
            version=f"{older.version}, {newer.version}",
            sources=(*older.sources, *newer.sources),
            sha256=older.sha256,
            links=older.links,
            older=older,
            newer=newer,
        )

    def node(self, key: str) -> Node:
        """Return the node of the older graph, otherwise of the newer one. Raises KeyError."""
        try:
            return self.older.node(key)
        except KeyError:
            return self.newer.node(key)

    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Return the entities of the older graph."""
        return self.older.entities(kind)

    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """Return the objects in the older graph, or in the newer one for subjects that only it contains."""
        found = self.older.objects(subject, relation)
        if found or self.older.popularity(subject) or relation not in self.newer.links:
            return found
        return self.newer.objects(subject, relation)

    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Return the holders in the older graph."""
        return self.older.holders(relation, object_)

    def subjects(self, relation: str) -> Iterator[Entity]:
        """Yield the subjects of the older graph."""
        return self.older.subjects(relation)

    def popularity(self, entity: Subject) -> int:
        """Return the number of facts in both graphs."""
        return self.older.popularity(entity) + self.newer.popularity(entity)
