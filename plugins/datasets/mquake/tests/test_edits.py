"""The option ``view=edits``."""

from __future__ import annotations

import copy

import pytest

from ke_core.plugin import LOCALITY, SINGLE_ASPECTS, Dataset
from ke_plugin_mquake.edits import NEAR
from ke_testing.dataset import DatasetContract


def another(record, n, *, subject="", answer="", edited=False):
    """Return a similar record about other entities, with the edit of the first record."""
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


def test_probes_of_the_view_edits(record, stored) -> None:
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


def test_paraphrase_stays_a_question(record, stored) -> None:
    (case,) = stored([record], view="edits").cases()
    efficacy, paraphrase = (
        next(p for p in case.probes if p.aspect == name).queries[0] for name in ("efficacy", "paraphrase")
    )
    assert (efficacy.edit, paraphrase.edit) == (case.edits[0].id, None)
    assert efficacy.cloze == "Mira Toll is a citizen of"


def test_neighbors_have_other_subjects_and_objects(record, stored) -> None:
    many = [another(record, n) for n in range(1, 15)]
    assert len(near(stored([record, *many], view="edits"))) == NEAR == 10
    assert len(near(stored([record, *many[:4]], view="edits"))) == 4
    assert near(stored([record], view="edits")) == []
    assert near(stored([record, another(record, 1, answer="Boland")], view="edits")) == []  # could not show a change


def test_subjects_of_neighbors_are_not_edited(record, stored) -> None:
    """Also by label, because labels are ambiguous."""
    same_name = another(record, 1, subject="Mira Toll")
    assert near(stored([record, same_name], view="edits")) == []


def test_neighbors_do_not_depend_on_the_order_of_the_file(record, stored) -> None:
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

    def test_numbers_of_neighbors(self, cases) -> None:
        counts = [len(probe.queries) for case in cases for probe in case.probes if probe.aspect == LOCALITY]
        assert (len(counts), min(counts), counts.count(NEAR)) == (2786, 1, 2508)

    def test_compared_objects_differ(self, cases) -> None:
        for case in cases:
            for probe in case.probes:
                assert all(len(set(query.continuations)) == len(query.continuations) for query in probe.queries)
