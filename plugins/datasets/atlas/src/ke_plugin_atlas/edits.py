"""The view by edits: every distinct edit is a case of its own, with neighbors."""

from __future__ import annotations

from functools import cache

from attrs import evolve

from ke_benchmarks import single_edit_cases, sort_key
from ke_benchmarks.graph import Graph
from ke_core.plugin import Case, Edit, Fact, Query
from ke_plugin_atlas.cases import cases, hop_query
from ke_plugin_atlas.world import AtlasHop, atlas_world, uses

NEAR = 10
"""Clozes of other subjects for each edit, like CounterFact's neighborhood prompts."""


@cache
def edit_cases() -> tuple[Case, ...]:
    """Return each distinct edit as a case, in the order of first mention."""
    return tuple(single_edit_cases(cases(), _near))


def _near(edit: Edit, after: Fact) -> tuple[Query, ...]:
    """Return ten clozes of the same relation with unedited subjects, whose objects differ from the edit's new one."""
    graph, relation = atlas_world().graph, after.relation.key
    chosen = [hop for hop in _untouched(relation) if hop.object != after.objects[0].key]
    ordered = sorted(chosen, key=lambda hop: sort_key("near", edit.id, hop.subject))
    return tuple(evolve(hop_query(graph, hop), id=f"near-{at}") for at, hop in enumerate(ordered[:NEAR], start=1))


@cache
def _untouched(relation: str) -> tuple[AtlasHop, ...]:
    """Return the true facts of a relation with unedited subjects. Objects with an article do not fit after a cloze."""
    touched = {edit.after.subject.key for case in cases() for edit in case.edits if edit.after}
    graph: Graph = atlas_world().graph
    subjects = [s.key for s in graph.subjects(relation) if s.key not in touched and uses(graph, s.key, relation)]
    hops = [
        AtlasHop(subject=subject, relation=relation, object=found.key)
        for subject in subjects
        if (found := graph.object(subject, relation)) is not None
    ]
    return tuple(hop for hop in hops if not graph.nodes[hop.object].article)
