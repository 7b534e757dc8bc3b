"""The view of the file by its edits."""

from __future__ import annotations

import copy

import pytest

from ke_core.plugin import LOCALITY, SINGLE_ASPECTS, Dataset
from ke_plugin_mquake.edits import NEAR
from ke_testing.dataset import DatasetContract


def another(record, n, *, subject="", answer="", edited=False):
    """The record again, about other things; without ``edited`` its edit is that of the first record."""
    made = copy.deepcopy(record)
    made["case_id"] = 100 + n
    name, country = subject or f"Person {n}", answer or "Cland"
    made["single_hops"][0] |= {
        "question": f"What is the country of citizenship of {name}?",
        "cloze": f"{name} is a citizen of",
    }
    made["single_hops"][0] |= {"answer": country, "answer_alias": []}
    key = "Q3" if country == "Boland" else f"Q9{n}"
    made["orig"]["triples"][0] = [f"Q8{n}", "P27", key]
    made["orig"]["triples_labeled"][0] = [name, "country of citizenship", country]
    made["orig"]["triples"][1][0] = key
    made["orig"]["triples_labeled"][1][0] = country
    return made


def near(dataset):
    (case,) = dataset.cases()
    return [query.texts[0] for probe in case.probes if probe.aspect == LOCALITY for query in probe.queries]


def test_an_edit_is_tested_by_its_own_fact_in_two_forms_and_by_its_neighbours(record, stored) -> None:
    (case,) = stored([record, another(record, 1)], view="edits").cases()
    assert case.id == case.edits[0].id == "Q1|P27|Q3"
    found = {probe.aspect: probe for probe in case.probes}
    assert tuple(found) == SINGLE_ASPECTS
    told = {name: [(q.texts[0], q.form, q.continuations) for q in probe.queries] for name, probe in found.items()}
    question, cloze = "What is the country of citizenship of Mira Toll?", "Mira Toll is a citizen of"
    assert told == {
        "efficacy": [(question, "question", ())],
        "efficacy-probability": [(cloze, "cloze", (" Boland", " Aland"))],
        "paraphrase": [(question, "question", ())],
        "paraphrase-probability": [(question, "question", (" Boland", " Aland"))],
        "locality": [("Person 1 is a citizen of", "cloze", ())],
        "locality-probability": [("Person 1 is a citizen of", "cloze", (" Cland", " Boland"))],
    }
    assert {name: probe.phase for name, probe in found.items() if probe.phase != "after"} == {"locality": "both"}


def test_the_paraphrase_stays_a_question_also_for_editors_that_are_asked_clozes(record, stored) -> None:
    (case,) = stored([record], view="edits").cases()
    efficacy, paraphrase = (
        next(p for p in case.probes if p.aspect == name).queries[0] for name in ("efficacy", "paraphrase")
    )
    assert (efficacy.edit, paraphrase.edit) == (case.edits[0].id, None)
    assert efficacy.cloze == "Mira Toll is a citizen of"


def test_neighbours_are_ten_at_most_of_other_subjects_and_other_objects(record, stored) -> None:
    many = [another(record, n) for n in range(1, 15)]
    assert len(near(stored([record, *many], view="edits"))) == NEAR == 10
    assert len(near(stored([record, *many[:4]], view="edits"))) == 4
    assert near(stored([record], view="edits")) == []
    assert near(stored([record, another(record, 1, answer="Boland")], view="edits")) == []  # could not show a change


def test_no_edit_of_the_file_touches_a_neighbour(record, stored) -> None:
    """By label too: the same name may stand for several things."""
    same_name = another(record, 1, subject="Mira Toll")
    assert near(stored([record, same_name], view="edits")) == []


def test_m3_neighbours_depend_on_the_edit_and_not_on_the_order_of_the_file(record, stored) -> None:
    many = [another(record, n) for n in range(1, 15)]
    assert near(stored([record, *many], view="edits")) == near(stored([record, *many[::-1]], view="edits"))


@pytest.fixture(scope="module")
def edits(published, make) -> Dataset:
    return make("mquake-cf-3k", data_dir=str(published.parent), view="edits")


class TestEditsOfCF3k(DatasetContract):
    name = "mquake-cf-3k"
    options = {"view": "edits"}  # noqa: RUF012  the contract declares it as a ClassVar

    @pytest.fixture
    def dataset(self, edits) -> Dataset:
        return edits

    def test_nine_of_ten_edits_have_ten_neighbours(self, cases) -> None:
        counts = [len(probe.queries) for case in cases for probe in case.probes if probe.aspect == LOCALITY]
        assert (len(counts), min(counts), counts.count(NEAR)) == (2786, 1, 2508)

    def test_new_and_old_object_are_never_spelled_alike(self, cases) -> None:
        for case in cases:
            for probe in case.probes:
                assert all(len(set(query.continuations)) == len(query.continuations) for query in probe.queries)
