"""Cases of made-up records, of the embedded ones and of the published file."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest

from ke_core.plugin import Dataset
from ke_testing.dataset import DatasetContract, build_dataset, read_error, stored_fixture, with_field

RECORD = {
    "id": 7,
    "source": "NQ",
    "prompt": "who set up Ostrel Mills?",
    "target": " J. K. Lisk",
    "subject": "Ostrel Mills",
    "rephrase": "By whom was Ostrel Mills set up?",
    "locality": [{"loc": f"how many locks has canal {n}", "loc_ans": "eleven"} for n in range(5)],
}


@pytest.fixture
def records() -> list[dict[str, Any]]:
    return copy.deepcopy([RECORD, RECORD | {"target": "j. k. lisk"}, RECORD | {"target": "Tobin Crane"}])


stored = stored_fixture("qaedit", "QAEdit_inter_1k.json")


class TestFile(DatasetContract):
    name = "qaedit"
    whole = False

    @pytest.fixture
    def dataset(self, records, stored) -> Dataset:
        return stored(records)


class TestAtlas(DatasetContract):
    name = "qaedit-atlas"


def queries(case) -> dict[str, Any]:
    return {probe.id: probe.queries[0] for probe in case.probes}


def test_each_question_is_generated_and_scored_by_both_models(records, stored) -> None:
    case = next(stored(records).cases())
    assert {probe.aspect: (probe.queries[0].texts[0], probe.queries[0].continuations) for probe in case.probes} == {
        "efficacy": ("who set up Ostrel Mills?", ()),
        "paraphrase": ("By whom was Ostrel Mills set up?", ()),
        "efficacy-teacher-forced": ("who set up Ostrel Mills?", (" J. K. Lisk", " Tobin Crane")),
        "paraphrase-teacher-forced": ("By whom was Ostrel Mills set up?", (" J. K. Lisk", " Tobin Crane")),
        "locality": ("how many locks has canal 0", ()),
    }
    assert {probe.phase for probe in case.probes} == {"both"}
    assert case.edits[0].cloze.template == "who set up {}?"


@pytest.mark.parametrize(("n", "asked"), [("0", 0), ("3", 3)])
def test_number_of_unrelated_questions(records, stored, n, asked) -> None:
    case = next(stored(records, locality=n).cases())
    assert sum(len(probe.queries) for probe in case.probes if probe.aspect == "locality") == asked


@pytest.mark.parametrize(("stop", "wanted"), [("period", (".", "\n")), ("line", ("\n",))])
def test_answers_end_at_the_stop_strings_or_after_50_tokens(records, stored, stop, wanted) -> None:
    dataset = stored(records, stop=stop)
    prompt = dataset.prompt(queries(next(dataset.cases()))["efficacy"], "question")
    assert (prompt.text, prompt.decoding.stop, prompt.decoding.max_tokens) == (RECORD["prompt"], wanted, 50)


def test_instruction_is_not_before_scored_targets(records, stored) -> None:
    dataset = stored(records)
    found = queries(next(dataset.cases()))
    assert dataset.prompt(found["efficacy"], "instruction").text.endswith(f"Question: {RECORD['prompt']}\nAnswer:")
    assert dataset.prompt(found["efficacy-teacher-forced"], "instruction").text == RECORD["prompt"]


@pytest.mark.parametrize("field", ["source", "prompt", "target", "subject", "rephrase", "locality"])
def test_missing_field_is_named(records, stored, field) -> None:
    assert f"record 1: {field}: missing" in read_error(stored([with_field(records[0], field, ...)]).cases)


def test_published_counts_and_sources() -> None:
    cases = list(build_or_skip())
    assert len(cases) == 1000
    assert Counter(case.tags["source"] for case in cases) == {"SQA": 389, "TQA": 364, "NQ": 247}
    assert all(case.edits[0].cloze for case in cases)


def build_or_skip() -> Any:
    dataset = build_dataset("qaedit")
    if not dataset.checksum():
        pytest.skip("QAEdit_inter_1k.json is missing: set KE_DATA_DIR")
    return dataset.cases()


def test_no_embedded_locality_question_is_edited_by_any_case() -> None:
    cases = list(build_dataset("qaedit-atlas", locality="5").cases())
    edited = {edit.question for case in cases for edit in case.edits}
    queries = [
        query for case in cases for probe in case.probes if probe.aspect == "locality" for query in probe.queries
    ]
    assert not edited & {query.texts[0] for query in queries}


def test_embedded_paraphrases_have_the_article_of_the_country() -> None:
    cases = build_dataset("qaedit-atlas").cases()
    asked = {probe.queries[0].texts[0] for case in cases for probe in case.probes if probe.aspect == "paraphrase"}
    assert {"Which city serves as the capital of the Philippines?", "The Netherlands lies on which continent?"} <= asked
