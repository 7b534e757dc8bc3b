"""Cohen's kappa computed manually."""

import pytest

from ke_plugin_analysis.kappa import measure_agreement


def labels(yes_yes, yes_no, no_yes, no_no):
    """Return manual and judge labels from the four counts of a table."""
    by_hand = ["yes"] * (yes_yes + yes_no) + ["no"] * (no_yes + no_no)
    return by_hand, ["yes"] * yes_yes + ["no"] * yes_no + ["yes"] * no_yes + ["no"] * no_no


def test_kappa_of_a_table_worked_by_hand():
    """20, 5, 10, 15 of 50: agreed .7; by chance .5 * .6 + .5 * .4 = .5; kappa (.7 - .5) / (1 - .5) = .4."""
    found = measure_agreement(*labels(20, 5, 10, 15))
    assert (found.n, found.agreed) == (50, 35)
    assert found.kappa == pytest.approx(0.4)
    assert not found.enough


def test_kappa_of_three_labels_worked_by_hand():
    """2 of 2 a, 1 of 2 b, 2 of 2 c: agreed 5/6; chance (2*2 + 2*1 + 2*3) / 36 = 1/3; kappa (1/2) / (2/3) = .75."""
    found = measure_agreement(["a", "a", "b", "b", "c", "c"], ["a", "a", "b", "c", "c", "c"])
    assert found.kappa == pytest.approx(0.75)


def test_perfect_agreement_is_one_and_chance_is_zero():
    assert measure_agreement(*labels(25, 0, 0, 25)).kappa == 1
    assert measure_agreement(*labels(10, 10, 10, 10)).kappa == 0


def test_a_constant_judge_has_kappa_zero():
    found = measure_agreement(*labels(45, 0, 5, 0))
    assert (found.agreed, found.kappa) == (45, 0)


def test_kappa_of_a_single_label_is_undefined():
    found = measure_agreement(["yes"] * 50, ["yes"] * 50)
    assert (found.kappa, found.interval, found.enough) == (None, None, False)
    assert "undefined" in str(found)


def test_the_interval_contains_kappa_and_is_reproducible():
    found = measure_agreement(*labels(20, 5, 10, 15))
    assert found.interval.low < 0.4 < found.interval.high
    assert found == measure_agreement(*labels(20, 5, 10, 15))
    assert 0.05 < found.interval.low < 0.25
    assert 0.55 < found.interval.high < 0.75
