"""Cases of given edits, which may depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ke_benchmarks.graph import EditBuilder, Graph, GraphEdit, Node, load_atlas
from ke_core.plugin import Case, Entity
from ke_plugin_ripple_edits import BUILDER

PERU, CHILE, CUSCO, LIMA = "country:PE", "country:CL", "city:PE/cusco", "city:PE/lima"


@pytest.fixture(scope="module")
def atlas() -> Graph:
    return load_atlas()


def edit(graph: Graph, subject: str, relation: str, new: str) -> GraphEdit:
    return GraphEdit(subject=subject, relation=relation, new=graph.entity(new))


def built(graph: Graph, edits: Sequence[GraphEdit], changing: Sequence[str] = ()) -> list[Case | str]:
    builder = BUILDER.build(BUILDER.config())
    assert isinstance(builder, EditBuilder)
    return builder.from_edits(edits, graph, changing)


def asked(case: Case | str) -> dict[str, set[str]]:
    """Return the prompts of the tests by criterion."""
    assert isinstance(case, Case)
    found: dict[str, set[str]] = {}
    for probe in case.probes:
        found.setdefault(probe.aspect, set()).update(query.texts[0] for query in probe.queries)
    return found


def test_a_given_edit_has_the_tests_of_the_criteria(atlas: Graph) -> None:
    (case,) = built(atlas, [edit(atlas, PERU, "currency", "currency:USD")])
    assert isinstance(case, Case)
    assert case.edits[0].statement == "The currency of Peru is the United States dollar"
    found = asked(case)
    assert found["relation-specificity"] >= {"The capital of Peru is", "Peru is a country on the continent of"}
    assert "The currency of Peru is the" not in found["relation-specificity"]


def test_tests_that_another_edit_changes_are_left_out(atlas: Graph) -> None:
    currency, capital = edit(atlas, PERU, "currency", "currency:USD"), edit(atlas, PERU, "capital", CUSCO)
    first, second = map(asked, built(atlas, [currency, capital]))
    assert "The capital of Peru is" not in first["relation-specificity"]
    assert "The currency of Peru is the" not in second["relation-specificity"]
    assert "Peru is a country on the continent of" in first["relation-specificity"] & second["relation-specificity"]


def test_facts_of_changing_entities_are_not_kept(atlas: Graph) -> None:
    currency = edit(atlas, PERU, "currency", "currency:USD")
    (other,) = built(atlas, [currency], [CHILE])
    assert asked(other)["relation-specificity"]
    (case,) = built(atlas, [currency], [PERU])
    assert "relation-specificity" not in asked(case)


def test_a_new_object_that_the_graph_lacks_has_no_facts(atlas: Graph) -> None:
    new = Entity(label="Nueva Lima", id="city:new")
    graph = atlas.with_nodes({"city:new": Node(entity=new, kind="city")})
    (case,) = built(graph, [GraphEdit(subject=PERU, relation="capital", new=new)])
    found = asked(case)
    assert found["logical-generalization"] >= {"Nueva Lima is the capital of"}
    assert "compositionality-1" not in found


def test_an_edit_that_cannot_be_built_has_a_reason(atlas: Graph) -> None:
    number = GraphEdit(subject=PERU, relation="population", new=Entity(label="7", id="number:7"))
    reason, case = built(atlas, [number, edit(atlas, PERU, "capital", CUSCO)])
    assert reason == "the relation 'population' has numbers as objects, or no cloze"
    assert "relation-specificity" not in asked(case)  # any fact of Peru may change with the first edit
