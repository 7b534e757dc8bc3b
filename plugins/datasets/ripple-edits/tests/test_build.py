"""The builder, and the embedded dataset."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from ke_benchmarks.graph import BuildTools, Graph, contains_name, load_atlas
from ke_core.plugin import BadData, Case, Entity, contradicting
from ke_plugin_ripple_edits import RippleBuildConfig
from ke_plugin_ripple_edits.build import RippleBuilder
from ke_plugin_ripple_edits.dataset import atlas_records
from ke_testing.dataset import build_dataset
from ke_testing.process import under_hash_seeds

KEYS = ("Logical_Generalization", "Compositionality_I", "Compositionality_II", "Subject_Aliasing",
        "Relation_Specificity", "Forgetfulness")  # fmt: skip


@pytest.fixture
def company(toy: Any) -> Graph:
    """Forty people in four teams at four sites."""
    people = [f"person:Person{n:02}" for n in range(40)]
    teams, sites = [f"team:Team{n}" for n in range(4)], [f"site:Site{n}" for n in range(4)]
    return toy.graph(  # type: ignore[no-any-return]
        {"team": toy.relation("team", "person", "team"), "site": toy.relation("site", "team", "site")},
        {
            "team": {who: [teams[n % 4]] for n, who in enumerate(people)},
            "site": dict(zip(teams, ([s] for s in sites), strict=True)),
        },
        [*people, *teams, *sites],
    )


def test_graph_without_rules_gives_two_hop_tests(company: Graph, toy: Any) -> None:
    found = toy.records(company, cases=10)
    assert len(found) == 10
    moved = next(record for record in found if record["edit"]["relation"] == "team")
    (test,) = moved["Compositionality_I"]
    assert test["test_queries"][0]["prompt"].startswith("The site of the team of Person")


def test_built_records_are_readable(company: Graph, toy: Any, loaded: Any) -> None:
    found = toy.records(company, cases=10)
    cases: list[Case] = loaded(*found)
    assert len(cases) == 10
    assert all(case.edits[0].cloze and case.edits[0].before for case in cases)
    assert [case.edits[0].statement for case in cases] == [r["edit"]["prompt"].removesuffix(".") for r in found]


def test_records_depend_on_graph_and_seed(company: Graph, toy: Any) -> None:
    assert toy.records(company, cases=10) == toy.records(company, cases=10)
    assert toy.records(company, cases=10) != toy.records(company, cases=10, seed=1)


def test_subset_popular(company: Graph, toy: Any) -> None:
    found = toy.records(company, subset="popular")
    assert {record["edit"]["relation"] for record in found} == {"site"}
    assert {record["example_type"] for record in found} == {"popular"}


def test_subset_recent(company: Graph, toy: Any) -> None:
    found = toy.records(company, subset="recent", cases=10)
    for record in found:
        edit = record["edit"]
        assert "original_fact" not in edit
        assert edit["target_id"] in {o.key for o in company.objects(edit["subject_id"], edit["relation"])}


def test_unrecalled_facts_are_not_edited(company: Graph) -> None:
    dropped: Counter[str] = Counter()
    tools = BuildTools(
        cases=5,
        recalls=lambda asked: [fact.gold.entities[0].label == "Team1" for fact in asked],
        dropped=lambda why: dropped.update([why]),
    )
    found = list(RippleBuilder(config=RippleBuildConfig()).records(company, tools))
    assert found
    assert {record["edit"]["original_fact"]["target_label"] for record in found} == {"Team1"}
    assert dropped["the model does not recall the edited fact"]


def test_unusable_graph_is_rejected(toy: Any) -> None:
    poor = toy.graph({"likes": toy.relation("idol", "p", "p")}, {"likes": {"p:A": ["p:B"]}}, ["p:A", "p:B"])
    with pytest.raises(BadData, match="no edit of a fact in "):
        toy.records(poor)


def test_entities_without_unique_label_are_not_edited(toy: Any) -> None:
    graph = toy.graph(
        {"team": toy.relation("team", "person", "team"), "site": toy.relation("site", "team", "site")},
        {"team": {f"person:{n}": ["team:T1"] for n in ("Q77", "Al", "Cy")} | {"person:Di": ["team:T2"]},
         "site": {"team:T1": ["site:S1"], "team:T2": ["site:S2"]}},
        ["person:Q77", "person:Al", "person:Cy", "person:Di", "team:T1", "team:T2", "site:S1", "site:S2"],
        Cy={"label": "Al"},
    )  # fmt: skip
    assert {record["edit"]["subject_label"] for record in toy.records(graph)} <= {"Di", "T1", "T2"}


# --- the atlas -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(atlas_records()))
    return found


def test_atlas_counts(atlas: list[dict[str, Any]]) -> None:
    assert len(atlas) == 300
    counts = {key: sum(len(record[key]) for record in atlas) for key in KEYS}
    assert all(counts[key] >= least for key, least in zip(KEYS, (500, 500, 50, 40, 150, 30), strict=True)), counts


def test_conditions_are_facts_of_the_atlas(atlas: list[dict[str, Any]]) -> None:
    graph = load_atlas()
    for record in atlas:
        for test in (test for key in KEYS for test in record[key]):
            for query in test["condition_queries"]:
                known = {entity.key for entity in graph.objects(query["subject_id"], query["relation"])}
                assert set(query["target_ids"]) == known, query["prompt"]


def test_no_edit_of_the_atlas_contradicts_another_case(toy: Any) -> None:
    """So all edits can be applied together."""
    cases = list(build_dataset("ripple-edits-atlas").cases())
    bank = {edit.id: edit for case in cases for edit in case.edits}
    assert len(bank) == len(cases)
    for case in cases:
        assert not contradicting(case.facts_after, bank)
        assert contradicting(case.facts_before, bank) == {case.edits[0].id}


def test_prompts_of_the_atlas_do_not_name_their_answers(atlas: list[dict[str, Any]]) -> None:
    for record in atlas:
        for test in (test for key in KEYS for test in record[key]):
            for query in (*test["test_queries"], *test["condition_queries"]):
                assert query["prompt"][0] == query["prompt"][0].upper()
                named = [Entity(label=answer["value"]) for answer in query["answers"]]
                assert not contains_name(query["prompt"], named), query["prompt"]


def test_hash_seed_has_no_effect(toy: Any) -> None:
    told = "from ke_plugin_ripple_edits.dataset import _atlas_checksum as c; print(c())"
    assert {text.strip() for text in under_hash_seeds(told)} == {build_dataset("ripple-edits-atlas").info().sha256}
