"""The view by edits: every distinct edit is a case of its own, with neighbors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from attrs import evolve

from ke_benchmarks import single_edit_probes
from ke_benchmarks.graph import Graph
from ke_core.plugin import EFFICACY, Case, Edit, Query
from ke_plugin_atlas.cases import cases, hop_query
from ke_plugin_atlas.world import AtlasHop, atlas_world, rank, uses

NEAR = 10
"""Clozes of other subjects for each edit, like CounterFact's neighborhood prompts."""


@cache
def edit_cases() -> tuple[Case, ...]:
    """Return each distinct edit as a case, in the order of first mention."""
    found: dict[str, Case] = {}
    for case in cases():
        edits = {edit.id: edit for edit in case.edits}
        for probe in case.probes:
            if probe.aspect == EFFICACY and probe.edits[0] not in found:
                edit = edits[probe.edits[0]]
                found[edit.id] = _case(edit, evolve(probe.queries[0], id="edit"))
    return tuple(found.values())


def _case(edit: Edit, question: Query) -> Case:
    assert edit.before is not None
    assert edit.after is not None
    return Case(
        id=edit.id,
        edits=(edit,),
        probes=single_edit_probes(question, tuple(_near(edit))),
        facts_before=(edit.before,),
        facts_after=(edit.after,),
        tags={"hops": "1", "edits": "1"},
    )


def _near(edit: Edit) -> Iterator[Query]:
    """Return ten clozes of the same relation with unedited subjects, whose objects differ from the edit's new one."""
    assert edit.after is not None
    graph, relation = atlas_world().graph, edit.after.relation.key
    chosen = [hop for hop in _untouched(relation) if hop.object != edit.after.objects[0].key]
    for number, hop in enumerate(sorted(chosen, key=lambda hop: rank("near", edit.id, hop.subject))[:NEAR], start=1):
        yield evolve(hop_query(graph, hop), id=f"near-{number}")


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
