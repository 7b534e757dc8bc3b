"""Whether the graph has an edge: as released, and as algorithm 1 is printed."""

from __future__ import annotations

import pytest

from ke_core.plugin import Relation
from ke_plugin_gwalk.graph import EditGraph, HiddenEdges
from ke_plugin_gwalk.retrieval import Thresholds, as_printed, as_released
from ke_testing.fakes import ScriptedModel, WordEncoder, make_session

ALL = HiddenEdges()
LEAST = Thresholds(relation=0.3, entity=0.7)


def graph_of(edits=()) -> EditGraph:
    graph = EditGraph(WordEncoder(), bare=False, respell=True, aliases=None, near=True)
    graph.change(add=edits)
    return graph


def run(procedure):
    """What a procedure that asks for nothing but look-ups comes to."""
    return make_session(ScriptedModel([])).engine.run({"look-up": procedure})["look-up"]


def object_of(found):
    return None if found.fact is None else found.fact.object


@pytest.mark.parametrize(("retrieve", "object_"), [(as_released, None), (as_printed, "Boland")])
def test_an_entity_is_near_by_embedding_only_as_printed(retrieve, object_, edits) -> None:
    found = run(retrieve(graph_of(edits), "Doctor Mira Toll", "country of citizenship", ALL, LEAST))
    assert object_of(found) == object_
    assert (found.subject == "Mira Toll") == (object_ is not None)


def test_an_entity_below_the_threshold_is_nobody(edits) -> None:
    least = Thresholds(relation=0.3, entity=0.95)
    found = run(as_printed(graph_of(edits), "Doctor Mira Toll", "country of citizenship", ALL, least))
    assert (found.subject, found.relation, found.fact) == ("Doctor Mira Toll", None, None)


@pytest.mark.parametrize(("retrieve", "object_"), [(as_released, None), (as_printed, "Boland")])
def test_as_printed_a_nearer_relation_of_somebody_else_does_not_hide_ones_own(retrieve, object_, edits) -> None:
    """Of all relations "official language of the country" is nearest to that of Boland."""
    found = run(retrieve(graph_of(edits), "Mira Toll", "official language of the country", ALL, LEAST))
    assert object_of(found) == object_


@pytest.mark.parametrize("retrieve", [as_released, as_printed])
def test_a_relation_below_the_threshold_is_none(retrieve, edits) -> None:
    assert run(retrieve(graph_of(edits), "Mira Toll", "favourite colour", ALL, LEAST)).relation is None


@pytest.mark.parametrize("retrieve", [as_released, as_printed])
def test_a_hidden_edge_is_not_there(retrieve, edits) -> None:
    found = run(
        retrieve(graph_of(edits), "Mira Toll", "country of citizenship", HiddenEdges(edges=frozenset({"mira"})), LEAST)
    )
    assert found.fact is None


def test_what_is_taken_off_is_nobodys_neighbor_any_more(edits) -> None:
    graph = graph_of(edits)
    graph.change(remove=["mira"])
    assert graph.subjects is not None
    assert len(graph.subjects) == 1
    assert run(graph.subject("Doctor Mira Toll", 0.1, ALL)) != "Mira Toll"
    graph.change(remove=["boland"])
    assert len(graph.subjects) == 0
    assert run(as_printed(graph, "Mira Toll", "country of citizenship", ALL, LEAST)).fact is None


def test_the_papers_profile_walks_so_and_asks_the_model_all_the_same(replay) -> None:
    reply, _model = replay(
        " [Doctor Mira Toll]", "(country of citizenship)->(official language)->answer",
        " {} is from. Aland", " It is {}. Bolish",
        profile="paper", threshold="0.3",
    )  # fmt: skip
    assert reply.text == "Arabic"
    assert [step.retrieved for step in reply.steps if step.kind == "subquestion"] == [("mira",), ("boland",)]


HIDDEN = frozenset({"hidden"})


def test_a_hidden_entity_takes_nobodys_place(edits, edit_of, relations) -> None:
    graph = graph_of([*edits, edit_of(relations[0], "Doctor Mira Toll Jr", "Aland", name="hidden")])
    for unseen, object_ in ((ALL, "Aland"), (graph.unseen(HIDDEN), "Boland")):
        found = run(as_printed(graph, "Doctor Mira Toll", "country of citizenship", unseen, LEAST))
        assert object_of(found) == object_


def test_a_hidden_relation_takes_nobodys_place(edits, edit_of, relations) -> None:
    nearer = Relation(label="country that she is a citizen of", id="P999", cloze="{} belongs to")
    graph = graph_of([*edits, edit_of(nearer, "Somebody", "Aland", name="hidden")])
    for unseen, object_ in ((ALL, None), (graph.unseen(HIDDEN), "Boland")):
        found = run(as_released(graph, "Mira Toll", "country that she is a citizen of", unseen, LEAST))
        assert object_of(found) == object_
