"""The builder on a small graph and on the atlas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from attrs import evolve

from ke_benchmarks.graph import BuildTools, Graph, RecallProbe, parse
from ke_core.plugin import BadData, Case
from ke_plugin_compke import CompkeBuild, build_builder
from ke_plugin_compke.cases import case
from ke_plugin_compke.dataset import ATLAS_CASES, atlas_records
from ke_plugin_compke.forms import BY_NAME

Place = tuple[str, str]


def built(graph: Graph, cases: int = 60, seed: int = 0, **options: Any) -> list[dict[str, Any]]:
    config = CompkeBuild(**{"popular": 1.0, "share": 0.4, **options})
    return [dict(record) for record in build_builder(config).records(graph, BuildTools(cases=cases, seed=seed))]


def edits_of(record: dict[str, Any]) -> dict[Place, frozenset[str]]:
    return {
        (edit["subject_id"], edit["relation_id"]): frozenset(one["id"] for one in edit["new_objects"])
        for edit in record["edits"]
    }


def rests_on(record: dict[str, Any]) -> dict[Place, frozenset[str]]:
    return {
        (fact["subject"]["id"], fact["relation_id"]): frozenset(one["id"] for one in fact["objects"])
        for fact in record["new_triples"]
    }


def sound(records: Iterable[dict[str, Any]]) -> None:
    """Check that no case edits a fact differently than another, or depends on a fact that another edits."""
    found = list(records)
    edits: dict[Place, frozenset[str]] = {}
    for record in found:
        for place, objects in edits_of(record).items():
            assert edits.setdefault(place, objects) == objects
    for record in found:
        for place, objects in rests_on(record).items():
            assert edits.get(place, objects) == objects


def test_structures_from_a_small_graph(company: Graph) -> None:
    records = built(company, cases=80)
    assert {record["structure"] for record in records} >= {"one-step", "two-step", "1", "2", "3", "4", "6"}
    assert len(records) == len({tuple(record["questions"]) for record in records})


def test_built_records_are_readable(company: Graph, read: Callable[..., list[Case]]) -> None:
    records = built(company)
    cases = read(records)
    assert len(cases) == len(records)
    for record, made in zip(records, cases, strict=True):
        assert made.tags["steps"] == f"{len(BY_NAME[record['structure']].steps)}-step"


def test_one_world_has_no_contradictions(company: Graph) -> None:
    sound(built(company))


def test_sets_are_not_empty_and_the_answer_changes(company: Graph) -> None:
    for record in built(company):
        for operation in (*record["operations"], *record["new_operations"]):
            assert operation["output"]
        assert {a["id"] for a in record["answers"]} != {a["id"] for a in record["new_answers"]}
        assert 1 <= len(record["edits"]) <= 5


def test_edits_add_delete_and_retain(company: Graph, read: Callable[..., list[Case]]) -> None:
    assert {edit.operation for made in read(built(company, share=0.8)) for edit in made.edits} >= {
        "add",
        "delete",
        "replace",
        "mixed",
    }


def test_combined_sets_have_one_type(company: Graph) -> None:
    for record in built(company):
        for operation in record["operations"]:
            assert len({key.partition(":")[0] for key in operation["output"]}) == 1
        assert not any(edit["relation_id"] == "age" for edit in record["edits"])


def test_records_depend_on_the_seed(company: Graph) -> None:
    assert built(company) == built(company)
    assert built(company) != built(company, seed=1)


def test_edits_per_case_drop_conflicting_cases(company: Graph) -> None:
    dropped: Counter[str] = Counter()
    tools = BuildTools(cases=60, dropped=lambda reason: dropped.update([reason]))
    builder = build_builder(CompkeBuild(edits="case", popular=1.0, share=0.4))
    edits: dict[Place, frozenset[str]] = {}
    for record in builder.records(company, tools):
        for place, objects in edits_of(dict(record)).items():
            assert edits.setdefault(place, objects) == objects
    assert dropped["its edits conflict with another case's"]


def test_records_with_unrecalled_facts_are_dropped(company: Graph) -> None:
    def recalls(asked: Sequence[RecallProbe]) -> list[bool]:
        return ["Ada" not in one.question for one in asked]

    tools = BuildTools(cases=40, recalls=recalls)
    for record in build_builder(CompkeBuild(popular=1.0, share=0.4)).records(company, tools):
        assert all("Ada" not in fact["question"] for fact in record["triples"])


def test_questions_can_be_rewritten(company: Graph) -> None:
    tools = BuildTools(cases=5, phrase=lambda texts: [text.upper() for text in texts])
    for record in build_builder(CompkeBuild(popular=1.0, share=0.4)).records(company, tools):
        assert all(text.isupper() for text in record["questions"])


def test_relation_without_template_is_quoted(company: Graph) -> None:
    questions = [text for record in built(company) if record["structure"] == "1" for text in record["questions"]]
    assert questions
    assert all('answers to "' in text for text in questions)


def test_option_closed(company: Graph) -> None:
    triples = {name: dict(rows) for name, rows in company.triples.items()}
    del triples["town"]["team:Red"]
    holey = evolve(company, triples=triples)
    unsaid = ("team:Red", "town")

    def asks(records: list[dict[str, Any]]) -> bool:
        return any(
            "team:Red" in record[name][given - 1]["output"] and operation["relation_id"] == "town"
            for record in records
            for name in ("operations", "new_operations")
            for operation in record[name]
            if operation["op"] == "map" and operation["inputs"][0].startswith("#")
            for given in [int(operation["inputs"][0][1:])]
        )

    assert unsaid[1] in holey.links
    assert not asks(built(holey))
    assert asks(built(holey, closed=True))


def test_graph_without_one_to_many_relations_is_rejected() -> None:
    raw = {
        "name": "plain", "version": "1", "sources": [],
        "relations": {"r": {"label": "r", "subject": "a", "object": "b", "cloze": "{} r", "question": "r {}?"}},
        "entities": {"a:1": {"label": "one"}, "b:1": {"label": "eins"}}, "facts": {"r": {"a:1": ["b:1"]}},
    }  # fmt: skip
    with pytest.raises(BadData, match="plain has no usable question about sets"):
        built(parse(json.dumps(raw), "plain.json"))


def test_unknown_relation_is_named(company: Graph) -> None:
    with pytest.raises(BadData, match="company has no relation 'rank'"):
        built(company, relations="team, rank")


# --- the atlas -----------------------------------------------------------------------------------------------


def test_atlas_has_every_structure() -> None:
    counts = Counter(record.structure for record in atlas_records())
    assert sum(counts.values()) == ATLAS_CASES == 400
    assert set(counts) == set(BY_NAME)
    for record in atlas_records():
        assert len(record.operations) == len(BY_NAME[record.structure].steps) == len(record.steps)


def test_atlas_has_no_audit_errors() -> None:
    sound(record.json() for record in atlas_records())


def test_atlas_has_three_wordings() -> None:
    for record in atlas_records():
        assert len(set(record.questions)) == 3
        assert all("{}" not in text and "___" not in text and "  " not in text for text in record.questions)


def test_questions_contain_no_key() -> None:
    for record in atlas_records():
        assert not any(":" in text for text in record.questions if "list:" not in text)


def test_question_does_not_name_an_answer() -> None:
    for record in atlas_records():
        made = case(record, "compke-atlas")
        query = made.probes[-1].queries[0]
        for entity in query.gold.entities:
            assert all(entity.label not in text for text in record.questions) or " " not in entity.label


def test_records_can_be_written_and_read(read: Callable[..., list[Case]]) -> None:
    records = [record.json() for record in atlas_records()[:20]]
    assert read(records) == [case(record, "-") for record in atlas_records()[:20]]
