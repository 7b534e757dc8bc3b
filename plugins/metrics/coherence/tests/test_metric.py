"""Coherence, computed manually."""

import pytest

from ke_core.plugin import Failure
from ke_testing.metric import MetricContract
from ke_testing.records import labeled_outcome as outcome
from ke_testing.records import metric_scores
from ke_testing.records import reasoning_record as record


class TestContract(MetricContract):
    name = "coherence"

    @pytest.fixture
    def record(self):
        return record(before=outcome("support"), after=outcome("consistent", "not-support"))


def scores(*records):
    return metric_scores("coherence", *records)


def test_coherence_is_the_fraction_of_supporting_thoughts():
    """Two of three labels are support."""
    labels = ("not-support", "support", "support")
    found = scores(*(record(str(at), after=outcome("consistent", label)) for at, label in enumerate(labels)))
    assert found["coherence", "after"].value == pytest.approx(2 / 3)
    assert found["coherence", "after"].n == 3


def test_examples_of_the_papers_prompt():
    """ReCoE, appendix on coherence: two questions, each with conclusive thoughts and both answers.

    The thoughts support one answer of each question, true or not: 2 of 4.
    """
    labels = {"hill, no": "not-support", "hill, yes": "support", "west, no": "not-support", "west, yes": "support"}
    found = scores(*(record(name, after=outcome(label)) for name, label in labels.items()))
    assert (found["coherence", "after"].value, found["coherence", "after"].n) == (0.5, 4)


def test_average_is_the_unweighted_mean_over_schemes():
    """Sorting 1 of 1, counting 1 of 3: the mean of 1 and 1/3, not 2 of 4."""
    found = scores(
        record("1", "sorting", after=outcome("support")),
        record("2", "counting", after=outcome("support")),
        record("3", "counting", after=outcome("not-support")),
        record("4", "counting", after=outcome("not-support")),
    )
    assert found["coherence", "after"].value == pytest.approx(0.5)
    assert found["coherence-counting", "after"].value == pytest.approx(1 / 3)
    assert found["coherence-average", "after"].value == pytest.approx(2 / 3)
    assert found["coherence-average", "after"].note.startswith("2 of 6 were observed")


def test_before_and_after_are_separate():
    found = scores(record(before=outcome("support"), after=outcome("not-support")))
    assert (found["coherence", "before"].value, found["coherence", "after"].value) == (1, 0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (outcome("support-unsure"), "the judge gave no valid label"),
        (outcome("no-thoughts"), "no thoughts before the answer"),
        (outcome("consistent"), "the judge did not label whether the thoughts support the answer"),
        (outcome(reply=Failure(error="Gone", message="m")), "there is no text answer: Gone"),
    ],
)
def test_missing_label_is_counted_with_its_reason(given, why):
    score = scores(record(after=given))["coherence", "after"]
    assert (score.n, score.skipped_because) == (0, {why: 1})
