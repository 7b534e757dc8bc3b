"""Find the edge <s, r, ?> in the graph: line 4 of algorithm 1, as released and as printed."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Procedure
from ke_plugin_gwalk.graph import EditGraph, EditTriple, HiddenEdges


@frozen(kw_only=True)
class Thresholds:
    """Minimum scores of a relation and of an entity."""

    relation: float
    entity: float


@frozen(kw_only=True)
class RetrievedEdge:
    """The subject as named in the graph, the retrieved relation (if any) with its score, and the edge (if any)."""

    subject: str
    relation: str | None
    score: float
    fact: EditTriple | None


def as_released(
    graph: EditGraph, name: str, phrase: str, unseen: HiddenEdges, least: Thresholds
) -> Procedure[RetrievedEdge]:
    """Find the entity by name, the nearest of all relations, and then the edge of both, if there is one."""
    subject = yield from graph.link(name, unseen)
    relation, score = yield from graph.relation(phrase, least.relation, unseen)
    fact = None if relation is None else graph.find(subject, relation, unseen.edges)
    return RetrievedEdge(subject=subject, relation=relation, score=score, fact=fact)


def as_printed(
    graph: EditGraph, name: str, phrase: str, unseen: HiddenEdges, least: Thresholds
) -> Procedure[RetrievedEdge]:
    """Find the entity by embedding too, T(s), and then the nearest relation among its own edges, T(r)."""
    subject = yield from graph.subject(name, least.entity, unseen)
    own = graph.relations_of(subject, unseen.edges)
    if not own:
        return RetrievedEdge(subject=subject, relation=None, score=0.0, fact=None)
    relation, score = yield from graph.relation(phrase, least.relation, unseen, own)
    fact = None if relation is None else graph.find(subject, relation, unseen.edges)
    return RetrievedEdge(subject=subject, relation=relation, score=score, fact=fact)
