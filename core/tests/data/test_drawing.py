"""A sample is fair, in order, the same for one seed, and holds no more than itself."""

from __future__ import annotations

from collections import Counter

from ke_core.cli.datasets import draw


def test_a_sample_keeps_the_order_and_repeats_nothing() -> None:
    drawn = draw(iter(range(1000)), 10, seed=1)
    assert len(drawn) == 10
    assert drawn == sorted(set(drawn))
    assert drawn == draw(range(1000), 10, seed=1) != draw(range(1000), 10, seed=2)


def test_there_may_be_fewer() -> None:
    assert draw("abc", 9, seed=1) == ["a", "b", "c"]
    assert draw([], 9, seed=1) == []


def test_each_is_as_likely_as_any_other() -> None:
    counts = Counter(item for seed in range(4000) for item in draw(range(8), 2, seed))
    assert all(900 < counts[item] < 1100 for item in range(8))  # 1000 expected, standard deviation 27
