"""Ranks of intervals. Overlapping intervals share a range of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ke_core.plugin import Interval


@frozen(kw_only=True)
class Rank:
    """The range of possible ranks, from 1 on. Both ends are equal if no other interval overlaps."""

    best: int
    worst: int

    @property
    def tied(self) -> bool:
        """True if another interval overlaps."""
        return self.best != self.worst


def ranks(intervals: Sequence[Interval | None], *, more_is_better: bool = True) -> list[Rank]:
    """Return the rank of each interval, in order. A missing interval overlaps all others.

    One is better than another only if their intervals do not overlap (touching ends overlap). That is stricter than a
    test of the difference, so entries of one rank may differ significantly.
    """
    ends = [_ends(one, more_is_better=more_is_better) for one in intervals]
    found = []
    for low, high in ends:
        above = sum(other_low > high for other_low, _high in ends)
        below = sum(other_high < low for _low, other_high in ends)
        found.append(Rank(best=1 + above, worst=len(ends) - below))
    return found


def _ends(one: Interval | None, *, more_is_better: bool) -> tuple[float, float]:
    """Return low and high, negated if less is better."""
    if one is None:
        return float("-inf"), float("inf")
    return (one.low, one.high) if more_is_better else (-one.high, -one.low)
