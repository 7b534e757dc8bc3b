"""Cases of made-up records."""

from __future__ import annotations

import pytest

from ke_core.plugin import Dataset, KEWarning
from ke_testing.dataset import DatasetContract


class TestAlt(DatasetContract):
    name = "zsre"

    @pytest.fixture
    def dataset(self, records, stored) -> Dataset:
        return stored(records)


class TestAnswers(DatasetContract):
    name = "zsre"
    options = {"target": "answers"}  # noqa: RUF012  the contract declares it as a ClassVar

    @pytest.fixture
    def dataset(self, records, stored) -> Dataset:
        return stored(records, target="answers")


def told(case):
    return {p.id: [(q.texts[0], q.form, q.continuations) for q in p.queries] for p in case.probes}


def test_target_alt(record, stored) -> None:
    (case,) = stored([record]).cases()
    own, again, near = record["src"], record["rephrase"], record["loc"] + "?"
    changed = (" Vera Lisk", " Tobin Crane")
    assert told(case) == {
        "efficacy": [(own, "question", ())],
        "efficacy-probability": [(own, "cloze", changed)],
        "paraphrase": [(again, "question", ())],
        "paraphrase-probability": [(again, "question", changed)],
        "locality": [(near, "cloze", ())],
        "locality-probability": [(near, "cloze", (" eleven", " Vera Lisk"))],
    }
    query = case.probes[0].queries[0]
    assert query.gold.entities[0].names == ("Vera Lisk",)
    assert query.pre_edit.entities[0].names == ("Tobin Crane", "T. Crane")


def test_target_answers(record, stored) -> None:
    (case,) = stored([record], target="answers").cases()
    assert set(told(case)) == {"efficacy", "paraphrase", "locality", "locality-probability"}
    query = case.probes[0].queries[0]
    assert query.gold.entities[0].names == ("Tobin Crane", "T. Crane")
    assert query.pre_edit is None
    assert case.edits[0].statement == "Who set up Ostrel Mills? Tobin Crane"


def test_records_with_blank_alt_are_skipped_and_counted(records, stored) -> None:
    first, second, third = records
    dataset = stored([first, second | {"alt": " "}, third, first | {"alt": ""}])
    with pytest.warns(KEWarning, match=r"zsre_mend_eval\.json: skipped because of a blank alt: 2\Z"):
        assert [case.id for case in dataset.cases()] == ["0", "2"]


@pytest.mark.parametrize("alt", ["", "Q969340", None])
def test_target_answers_ignores_alt(record, stored, alt) -> None:
    (case,) = stored([record | {"alt": alt}], target="answers").cases()
    assert case.probes[0].queries[0].gold.entities[0].names == ("Tobin Crane", "T. Crane")


def test_alt_that_is_an_alias_of_the_answer_is_not_compared(records, stored) -> None:
    *_, same = stored(records).cases()
    assert "efficacy-probability" not in told(same)
    assert same.edits[0].operation == "add"


def test_every_spelling_of_the_answer_is_a_name(record, stored) -> None:
    (case,) = stored([record | {"answers": ["A", "B", "A", "C"]}], target="answers").cases()
    assert case.probes[0].queries[0].gold.entities[0].names == ("A", "B", "C")


def test_cloze_has_the_span_of_the_subject(records, stored) -> None:
    named, unnamed, _ = stored(records).cases()
    cloze = named.edits[0].cloze
    assert cloze.prompt == "Who set up Ostrel Mills?"
    assert cloze.prompt[slice(*cloze.span)] == "Ostrel Mills"
    assert unnamed.edits[0].cloze is None


def test_subject_may_occur_twice_in_the_question(record, stored) -> None:
    (case,) = stored([record | {"src": "Did Ostrel Mills found Ostrel Mills?"}]).cases()
    assert case.edits[0].cloze.template == "Did {} found Ostrel Mills?"


def test_no_locality_if_the_unrelated_answer_is_the_new_one(record, stored) -> None:
    (case,) = stored([record | {"loc_ans": "vera lisk"}]).cases()
    assert "locality" not in told(case)


def test_question_mark_is_added_once(record, stored) -> None:
    (case,) = stored([record | {"loc": "who sings?"}]).cases()
    assert told(case)["locality"][0][0] == "who sings?"


def test_case_ids_are_positions_in_the_file(records, stored) -> None:
    assert [case.id for case in stored(records).cases()][:2] == ["0", "1"]
