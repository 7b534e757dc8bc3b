"""Cases of a file, and errors of invalid ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks.soundness import problems
from ke_core.plugin import BadData, Case, Dataset
from ke_plugin_compke import CompkeConfig
from ke_plugin_compke.dataset import compke
from ke_testing.dataset import DatasetContract, build_dataset, check_missing_file, read_error, with_field, write_json

Read = Callable[..., list[Case]]


class TestAtlas(DatasetContract):
    name = "compke-atlas"


class TestAtlasMasked(DatasetContract):
    name = "compke-atlas"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar


class TestOwnFile(DatasetContract):
    name = "compke"

    @pytest.fixture
    def dataset(self, record: dict[str, Any], tmp_path: Path) -> Dataset:
        return build_dataset("compke", file=str(write_json(tmp_path / "own.json", [record])))


def labels(entities: Any) -> set[str]:
    return {entity.label for entity in entities}


def test_example_of_the_paper(read: Read, record: dict[str, Any]) -> None:
    (case,) = read([record])
    queries = case.probes[-1].queries
    assert len(queries) == 3
    assert labels(queries[0].gold.entities) == {"San Francisco", "Los Angeles"}
    assert queries[0].pre_edit is not None
    assert labels(queries[0].pre_edit.entities) == {"Los Angeles"}
    (edit,) = case.edits
    assert edit.operation == "add"
    assert edit.statement == "Christine was filmed in San Francisco, Los Angeles, New York"
    assert edit.question == "In which places was Christine filmed?"
    assert case.tags == {"edits": "1", "steps": "3-step", "structure": "form 1", "operation": "add"}


def test_edit_id_ignores_the_order_of_objects(read: Read, record: dict[str, Any]) -> None:
    turned = json.loads(json.dumps(record)) | {"case_id": 2}
    turned["edits"][0]["new_objects"].reverse()
    one, two = read([record, turned])
    assert one.edits[0].id == two.edits[0].id


def test_hops_are_the_facts_of_the_chain(read: Read, record: dict[str, Any]) -> None:
    (case,) = read([record])
    query = case.probes[-1].queries[0]
    assert [hop.edit for hop in query.hops] == [case.edits[0].id, None]
    assert [hop.texts[0] for hop in query.hops_before] == [
        "In which places was Christine filmed?",
        "In which places was Pacific Heights filmed?",
    ]


def test_mask_hides_contradicting_edits(read: Read, record: dict[str, Any], tmp_path: Any) -> None:
    other = json.loads(json.dumps(record)) | {"case_id": 2}
    del other["operations"], other["new_operations"]
    other["edits"][0]["new_objects"] = other["new_triples"][0]["objects"] = [{"str": "Oslo", "id": "id-Oslo"}]
    one, two = read([record, other])
    dataset = compke(CompkeConfig(file=str(tmp_path / "own.json"), mask=True))
    bank = {edit.id: edit for case in (one, two) for edit in case.edits}
    assert dataset.hides(one, bank, edited=True) == {two.edits[0].id}


def test_unchanged_answer_has_no_pre_edit_answer(read: Read, record: dict[str, Any]) -> None:
    del record["operations"], record["new_operations"]
    record["new_answers"] = record["answers"]
    assert read([record])[0].probes[-1].queries[0].pre_edit is None


def test_material(read: Read, record: dict[str, Any], tmp_path: Any) -> None:
    read([record])
    material = compke(CompkeConfig(file=str(tmp_path / "own.json"))).material()
    assert material["answers"].value["1/complex-1"] == "San Francisco, Los Angeles"
    assert "sub-questions" not in material  # set operations join the hops
    assert "Logical operation" in material["decompositions"].value
    assert not material["decompositions"].oracle


OSLO = {"str": "Oslo", "id": "id-Oslo"}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("case_id", "1", "case_id: must be a whole number"),
        ("questions", [], "questions is empty"),
        ("questions", ["ok", " "], "one of questions is blank"),
        ("questions", "one", "questions: must be a list"),
        ("answers", [], "answers is empty"),
        ("new_answers", [OSLO, OSLO], "contains id-Oslo twice"),
        ("edits", [], "edits"),
        ("edits.0.prompt", "no slot", "exactly one"),
        ("edits.0.subject", " ", "subject is blank"),
        ("edits.0.subject", "Q76543", "no label, only its Wikidata id"),
        ("edits.0.new_objects", [], "new_objects is empty"),
        ("edits.0.new_objects", [OSLO], "different objects"),
        ("answers.0", {"str": "Los Angeles"}, "id: missing"),
        ("answers.0.aliases", [""], "aliases is blank"),
        ("triples", ["Christine"], "must be an object, not a text"),
        ("triples", [["Christine", "P915", ["Los Angeles"]]], "must be an object, not a list"),
        ("operations.2.op", "xor", "op"),
        ("operations.2.inputs", ["#1", "#7"], "uses the result of step 7"),
        ("operations.2.inputs", ["#1", "#3"], "uses the result of step 3"),
        ("operations.2.output", ["id-Oslo"], "step 3 gives id-Los Angeles from the facts, but its output is id-Oslo"),
        ("new_answers", [OSLO], "the answers are id-Oslo"),
        ("steps", ["one"], "steps has 1 items, operations 3"),
    ],
)
def test_invalid_field_is_named(read: Read, record: dict[str, Any], path: str, value: Any, said: str) -> None:
    error = read_error(lambda: read([with_field(record, path, value)]))
    assert said in error
    assert "own.json" in error


def test_two_edits_of_one_fact_are_rejected(read: Read, record: dict[str, Any]) -> None:
    record["edits"] *= 2
    with pytest.raises(BadData, match="two of them change the same subject and relation"):
        read([record])


def test_unknown_relation_requires_a_question(read: Read, record: dict[str, Any]) -> None:
    text = json.dumps(record).replace("P915", "P9999")
    with pytest.raises(BadData, match=r"case 1: edits: relation P9999 is unknown and has no question"):
        read(json.loads(text.join("[]")))
    own = json.loads(text)
    own["edits"][0] |= {"question": "Where was it?", "relation": "place"}
    assert read([own])[0].edits[0].question == "Where was it?"


def test_repeated_case_id_is_rejected(read: Read, record: dict[str, Any]) -> None:
    with pytest.raises(BadData, match="case_id: 1 occurs twice"):
        read([record, record])


def test_missing_own_file_is_rejected() -> None:
    with pytest.raises(BadData, match="no file"):
        compke(CompkeConfig(file="nowhere.json"))


def test_missing_file_has_instructions(ke_no_data: Path) -> None:
    dataset = compke(CompkeConfig())
    address = "https://raw.githubusercontent.com/kzjkzj666/CompKE/main/dataset/COMPKE.json"
    check_missing_file(dataset, ke_no_data / "data" / "compke" / "COMPKE.json", address)
    assert dataset.info().source == dataset.files()[0].url == address


def test_source_of_an_own_file(read: Read, record: dict[str, Any], tmp_path: Path) -> None:
    read([record])
    assert compke(CompkeConfig(file=str(tmp_path / "own.json"))).info().source == "your own file: -o compke.file=FILE"


def test_embedded_cases_are_sound() -> None:
    """Set operations are not chains."""
    assert problems(build_dataset("compke-atlas").cases()) == ()
