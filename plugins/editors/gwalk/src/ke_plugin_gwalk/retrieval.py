"""Whether the graph has <s, r, ?>: line 4 of algorithm 1, as the released code has it and as it is printed."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Procedure
from ke_plugin_gwalk.graph import EditGraph, EditTriple, HiddenEdges


@frozen(kw_only=True)
class Thresholds:
    """Least scores that count, of a relation and of an entity."""

    relation: float
    entity: float


@frozen(kw_only=True)
class RetrievedEdge:
    """The subject as the graph calls it, the relation if one was retrieved, with its score, and the edge if any."""

    subject: str
    relation: str | None
    score: float
    fact: EditTriple | None


def as_released(
    graph: EditGraph, name: str, phrase: str, unseen: HiddenEdges, least: Thresholds
) -> Procedure[RetrievedEdge]:
    """The entity by its name, the nearest of all the graph's relations, and the edge of the two, if there is one."""
    subject = yield from graph.link(name, unseen)
    relation, score = yield from graph.relation(phrase, least.relation, unseen)
    fact = None if relation is None else graph.find(subject, relation, unseen.edges)
    return RetrievedEdge(subject=subject, relation=relation, score=score, fact=fact)


def as_printed(
    graph: EditGraph, name: str, phrase: str, unseen: HiddenEdges, least: Thresholds
) -> Procedure[RetrievedEdge]:
    """A retrievable entity first, T(s), then a retrievable relation among its own edges, T(r)."""
    subject = yield from graph.subject(name, least.entity, unseen)
    own = graph.relations_of(subject, unseen.edges)
    if not own:
        return RetrievedEdge(subject=subject, relation=None, score=0.0, fact=None)
    relation, score = yield from graph.relation(phrase, least.relation, unseen, own)
    fact = None if relation is None else graph.find(subject, relation, unseen.edges)
    return RetrievedEdge(subject=subject, relation=relation, score=score, fact=fact)
