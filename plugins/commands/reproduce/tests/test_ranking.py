"""Ranks from intervals are ranges if the order is uncertain."""

import pytest

from ke_core.plugin import Interval
from ke_plugin_reproduce.ranks import ranks


def of(*pairs, more_is_better=True):
    made = [None if pair is None else Interval(low=pair[0], high=pair[1]) for pair in pairs]
    return [(rank.best, rank.worst) for rank in ranks(made, more_is_better=more_is_better)]


def test_intervals_that_do_not_overlap_give_one_rank_each():
    assert of((0.7, 0.9), (0.4, 0.6), (0.1, 0.3)) == [(1, 1), (2, 2), (3, 3)]


def test_intervals_that_overlap_or_touch_give_a_range():
    assert of((0.5, 0.9), (0.4, 0.6), (0.1, 0.4)) == [(1, 2), (1, 3), (2, 3)]
    assert of((0.5, 0.5), (0.5, 0.5)) == [(1, 2), (1, 2)]


def test_ranks_can_be_ascending():
    assert of((0.1, 0.2), (0.3, 0.4), more_is_better=False) == [(1, 1), (2, 2)]
    assert of((0.1, 0.2), (0.3, 0.4)) == [(2, 2), (1, 1)]


@pytest.mark.parametrize("more", [True, False])
def test_a_missing_interval_can_have_any_rank(more):
    assert of(None, (0.1, 0.2), (0.3, 0.4), more_is_better=more)[0] == (1, 3)
    assert of(None) == [(1, 1)]
