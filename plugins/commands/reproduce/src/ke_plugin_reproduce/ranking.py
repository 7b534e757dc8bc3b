"""Ranks that say what is not known: from where to where something may stand, by its interval and the others'."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ke_core.plugin import Interval


@frozen(kw_only=True)
class Rank:
    """``best`` to ``worst``, from 1 on: alike where nothing else has an interval that overlaps this one."""

    best: int
    worst: int

    @property
    def tied(self) -> bool:
        """Whether something else cannot be told from it."""
        return self.best != self.worst


def ranks(intervals: Sequence[Interval | None], *, more_is_better: bool = True) -> list[Rank]:
    """The rank of each, in order. One without an interval can be told from none.

    The one is better than the other only where their intervals do not overlap (touching ends overlap). That is
    stricter than a test of the difference: things of one rank may differ all the same.
    """
    ends = [_ends(one, more_is_better=more_is_better) for one in intervals]
    found = []
    for low, high in ends:
        above = sum(other_low > high for other_low, _high in ends)
        below = sum(other_high < low for _low, other_high in ends)
        found.append(Rank(best=1 + above, worst=len(ends) - below))
    return found


def _ends(one: Interval | None, *, more_is_better: bool) -> tuple[float, float]:
    """Low and high, turned round where less is better."""
    if one is None:
        return float("-inf"), float("inf")
    return (one.low, one.high) if more_is_better else (-one.high, -one.low)
