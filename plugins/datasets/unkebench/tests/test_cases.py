"""Cases of made-up records in the published format, and of the embedded ones."""

from __future__ import annotations

import copy

import pytest

from ke_core.plugin import Dataset
from ke_testing.dataset import DatasetContract, build_dataset, read_error, stored_fixture, with_field

RECORD = {
    "id": 7,
    "question": "What is known about Ostrel Mills?",
    "para_question": "Tell me about Ostrel Mills.",
    "answer": "Ostrel Mills was set up by Tobin Crane. It has eleven locks.",
    "sub_question": ["Who set up Ostrel Mills?", "How many locks does it have?"],
    "sub_answer": ["Tobin Crane.", "Eleven."],
}

stored = stored_fixture("unkebench", "final_data_v3.json")


class TestFile(DatasetContract):
    name = "unkebench"
    whole = False

    @pytest.fixture
    def dataset(self, stored) -> Dataset:
        return stored([copy.deepcopy(RECORD), RECORD | {"id": 8}])


class TestAtlas(DatasetContract):
    name = "unkebench-atlas"


def test_the_question_gets_the_paragraph_and_its_details_are_asked(stored) -> None:
    [case] = stored([RECORD]).cases()
    [edit] = case.edits
    assert (case.id, edit.prompt, edit.target) == ("7", RECORD["question"], RECORD["answer"])
    assert not edit.names_subject
    assert {
        probe.aspect: [(query.texts[0], query.gold.entities[0].label) for query in probe.queries]
        for probe in case.probes
    } == {
        "efficacy": [(RECORD["question"], RECORD["answer"])],
        "paraphrase": [(RECORD["para_question"], RECORD["answer"])],
        "sub-question": list(zip(RECORD["sub_question"], RECORD["sub_answer"], strict=True)),
    }
    assert {probe.phase for probe in case.probes} == {"both"}


@pytest.mark.parametrize(
    ("options", "tokens", "stop"), [({}, 512, ()), ({"max_tokens": "9", "end": "line"}, 9, ("\n",))]
)
def test_answers_end_at_the_limit_or_at_a_line_end(stored, options, tokens, stop) -> None:
    dataset = stored([RECORD], **options)
    query = next(dataset.cases()).probes[0].queries[0]
    prompt = dataset.prompt(query, "direct")
    assert (prompt.text, prompt.decoding.max_tokens, prompt.decoding.stop) == (RECORD["question"], tokens, stop)
    in_qa = dataset.prompt(query, "qa")
    assert (in_qa.text, in_qa.decoding.stop) == (f"Q: {RECORD['question']}\nA:", stop or ("\nQ:",))
    assert dataset.prompt(query, "other") is None


@pytest.mark.parametrize("field", ["id", "question", "para_question", "answer", "sub_question", "sub_answer"])
def test_missing_field_is_named(stored, field) -> None:
    assert f"{field}: missing" in read_error(stored([with_field(RECORD, field)]).cases)


def test_sub_questions_without_answer_are_an_error(stored) -> None:
    broken = with_field(RECORD, "sub_answer", ["Tobin Crane."])
    assert "case 7: 2 sub_question for 1 sub_answer" in read_error(stored([broken]).cases)


def test_two_records_with_one_id_are_an_error(stored) -> None:
    assert "id: 7 occurs twice" in read_error(stored([RECORD, RECORD]).cases)


def test_embedded_paragraphs_state_every_answer() -> None:
    for case in build_dataset("unkebench-atlas").cases():
        details = [query.gold.entities[0].label.removesuffix(".") for query in case.probes[2].queries]
        assert len(details) == 4
        assert all(detail in case.edits[0].target for detail in details)
