"""Retrieval of an edge: as in the released code, and as printed in algorithm 1."""

from __future__ import annotations

import pytest

from ke_core.plugin import Relation
from ke_plugin_gwalk.graph import EditGraph, HiddenEdges
from ke_plugin_gwalk.retrieval import Thresholds, as_printed, as_released
from ke_testing.fakes import ScriptedModel, WordEncoder, make_session

ALL = HiddenEdges()
LEAST = Thresholds(relation=0.3, entity=0.7)


def graph_of(edits=()) -> EditGraph:
    graph = EditGraph(WordEncoder(), released=False, aliases=None, near=True)
    graph.change(add=edits)
    return graph


def run(procedure):
    """Return the result of a procedure that only requests look-ups."""
    return make_session(ScriptedModel([])).engine.run({"look-up": procedure})["look-up"]


def object_of(found):
    return None if found.fact is None else found.fact.object


@pytest.mark.parametrize(("retrieve", "object_"), [(as_released, None), (as_printed, "Boland")])
def test_only_the_printed_algorithm_finds_entities_by_embedding(retrieve, object_, edits) -> None:
    found = run(retrieve(graph_of(edits), "Doctor Mira Toll", "country of citizenship", ALL, LEAST))
    assert object_of(found) == object_
    assert (found.subject == "Mira Toll") == (object_ is not None)


def test_entity_below_the_threshold_is_not_found(edits) -> None:
    least = Thresholds(relation=0.3, entity=0.95)
    found = run(as_printed(graph_of(edits), "Doctor Mira Toll", "country of citizenship", ALL, least))
    assert (found.subject, found.relation, found.fact) == ("Doctor Mira Toll", None, None)


@pytest.mark.parametrize(("retrieve", "object_"), [(as_released, None), (as_printed, "Boland")])
def test_printed_algorithm_searches_only_the_subjects_own_relations(retrieve, object_, edits) -> None:
    """Of all relations, "official language of the country" is nearest to the one of Boland."""
    found = run(retrieve(graph_of(edits), "Mira Toll", "official language of the country", ALL, LEAST))
    assert object_of(found) == object_


@pytest.mark.parametrize("retrieve", [as_released, as_printed])
def test_relation_below_the_threshold_is_not_found(retrieve, edits) -> None:
    assert run(retrieve(graph_of(edits), "Mira Toll", "favourite colour", ALL, LEAST)).relation is None


@pytest.mark.parametrize("retrieve", [as_released, as_printed])
def test_hidden_edge_is_not_found(retrieve, edits) -> None:
    found = run(
        retrieve(graph_of(edits), "Mira Toll", "country of citizenship", HiddenEdges(edges=frozenset({"mira"})), LEAST)
    )
    assert found.fact is None


def test_removed_subjects_are_not_found(edits) -> None:
    graph = graph_of(edits)
    graph.change(remove=["mira"])
    assert graph.subjects is not None
    assert len(graph.subjects) == 1
    assert run(graph.subject("Doctor Mira Toll", 0.1, ALL)) != "Mira Toll"
    graph.change(remove=["boland"])
    assert len(graph.subjects) == 0
    assert run(as_printed(graph, "Mira Toll", "country of citizenship", ALL, LEAST)).fact is None


def test_printed_profile_finds_entities_by_embedding_and_always_asks_the_model(replay) -> None:
    reply, _model = replay(
        " [Doctor Mira Toll]", "(country of citizenship)->(official language)->answer",
        " {} is from. Aland", " It is {}. Bolish",
        profile="algorithm-1", threshold="0.3",
    )  # fmt: skip
    assert reply.text == "Arabic"
    assert [step.retrieved for step in reply.steps if step.kind == "subquestion"] == [("mira",), ("boland",)]


HIDDEN = frozenset({"hidden"})


def test_hidden_entity_is_not_a_candidate(edits, edit_of, relations) -> None:
    graph = graph_of([*edits, edit_of(relations[0], "Doctor Mira Toll Jr", "Aland", name="hidden")])
    for unseen, object_ in ((ALL, "Aland"), (graph.unseen(HIDDEN), "Boland")):
        found = run(as_printed(graph, "Doctor Mira Toll", "country of citizenship", unseen, LEAST))
        assert object_of(found) == object_


def test_hidden_relation_is_not_a_candidate(edits, edit_of, relations) -> None:
    nearer = Relation(label="country that she is a citizen of", id="P999", cloze="{} belongs to")
    graph = graph_of([*edits, edit_of(nearer, "Somebody", "Aland", name="hidden")])
    for unseen, object_ in ((ALL, None), (graph.unseen(HIDDEN), "Boland")):
        found = run(as_released(graph, "Mira Toll", "country that she is a citizen of", unseen, LEAST))
        assert object_of(found) == object_
