"""Relatedness and consistency of facts, computed manually."""

import pytest

from ke_core.app import aggregate, installed_catalog
from ke_core.plugin import Failure
from ke_testing.metric import MetricContract
from ke_testing.records import labeled_outcome as outcome
from ke_testing.records import metric_scores
from ke_testing.records import reasoning_record as record


class TestContract(MetricContract):
    name = "fact-recall"

    @pytest.fixture
    def record(self):
        return record(before=outcome("consistent"), after=outcome("consistent", "unrelated", "support"))


def scores(*records):
    return metric_scores("fact-recall", *records)


def test_four_labeled_facts():
    """Related: 3 of 4. Consistent: 2 of 4, and 2 of the 3 related ones."""
    found = scores(record(after=outcome("consistent", "inconsistent", "unrelated", "consistent")))
    assert found["relatedness", "after"].value == pytest.approx(0.75)
    assert found["consistency", "after"].value == pytest.approx(0.5)
    assert found["consistency-of-related", "after"].value == pytest.approx(2 / 3)
    assert [found[aspect, "after"].n for aspect in ("relatedness", "consistency-of-related")] == [4, 3]
    assert found["consistency-of-related", "after"].skipped_because == {"not related to the case's facts": 1}


def test_examples_of_the_papers_prompt():
    """ReCoE, appendix on fact recall. The first reply has a repeated fact, a wrong number and a new fact, the second
    three repeated facts and a new one.

    Related: 2 of 3 and 3 of 4, in total 5 of 7. Consistent: 1 of 3 and 3 of 4, in total 4 of 7, and 4 of the 5 related.
    """
    found = scores(
        record("hills", after=outcome("consistent", "inconsistent", "unrelated")),
        record("states", after=outcome("consistent", "unrelated", "consistent", "consistent")),
    )
    assert found["relatedness", "after"].value == pytest.approx(5 / 7)
    assert found["consistency", "after"].value == pytest.approx(4 / 7)
    assert found["consistency-of-related", "after"].value == pytest.approx(4 / 5)


def test_fraction_is_of_facts_not_of_replies():
    """1 of 1 and 1 of 3 give 2 of 4, not the mean of 1 and 1/3."""
    found = scores(
        record("1", after=outcome("consistent")), record("2", after=outcome("consistent", "unrelated", "unrelated"))
    )
    assert found["consistency", "after"].value == pytest.approx(0.5)
    assert found["consistency", "after"].interval is not None


def test_before_and_after_are_separate():
    found = scores(record(before=outcome("consistent"), after=outcome("inconsistent")))
    assert (found["pre-edit-consistency", "before"].value, found["consistency", "after"].value) == (1, 0)
    assert ("consistency", "before") not in found


def test_unlabeled_fact_is_counted_as_missing():
    score = scores(record(after=outcome("consistent", "fact-unsure")))["consistency", "after"]
    assert (score.value, score.n, score.skipped_because) == (1, 1, {"the judge gave no valid label": 1})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (outcome("no-thoughts"), "no thoughts before the answer"),
        (outcome(), "the judge labeled no facts"),
        (outcome("support"), "the judge labeled no facts"),
        (outcome(reply=Failure(error="Gone", message="m")), "there is no text answer: Gone"),
    ],
)
def test_reply_without_facts_has_a_reason(given, why):
    score = scores(record(after=given))["relatedness", "after"]
    assert (score.n, score.skipped_because) == (0, {why: 1})


def test_breakdown_by_scheme():
    spec = installed_catalog().spec("metric", "fact-recall")
    records = [record("1", "sorting", after=outcome("consistent")), record("2", "counting", after=outcome("unrelated"))]
    found = aggregate(spec.build(spec.config()), spec, records, seed=0)
    by = {score.tags["scheme"]: score.value for score in found if score.tags and score.aspect == "relatedness"}
    assert by["sorting"] == 1
    assert by["counting"] == 0
