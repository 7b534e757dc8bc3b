"""Two states of one graph: facts are the older one's, things and their names are known from either."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph, Link, Node
from ke_benchmarks.graph.base import Subject
from ke_core.plugin import Entity


@frozen(kw_only=True, slots=False)
class TwoSnapshots(KnowledgeGraph):
    """Made by ``TwoSnapshots.of(older, newer)``."""

    name: str
    version: str
    sources: tuple[Mapping[str, str], ...]
    sha256: str
    links: Mapping[str, Link]
    older: KnowledgeGraph
    newer: KnowledgeGraph

    @classmethod
    def of(cls, older: KnowledgeGraph, newer: KnowledgeGraph) -> Self:
        """The two; relations and their words are the older one's."""
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
        """The older graph's, else the newer one's. Raises KeyError."""
        try:
            return self.older.node(key)
        except KeyError:
            return self.newer.node(key)

    def entities(self, kind: str) -> tuple[Entity, ...]:
        """Of the older graph."""
        return self.older.entities(kind)

    def objects(self, subject: Subject, relation: str) -> tuple[Entity, ...]:
        """The older graph's; for what only the newer one knows, its own."""
        found = self.older.objects(subject, relation)
        if found or self.older.popularity(subject) or relation not in self.newer.links:
            return found
        return self.newer.objects(subject, relation)

    def holders(self, relation: str, object_: Subject) -> tuple[Entity, ...]:
        """Of the older graph."""
        return self.older.holders(relation, object_)

    def subjects(self, relation: str) -> Iterator[Entity]:
        """Of the older graph."""
        return self.older.subjects(relation)

    def popularity(self, entity: Subject) -> int:
        """In both."""
        return self.older.popularity(entity) + self.newer.popularity(entity)
