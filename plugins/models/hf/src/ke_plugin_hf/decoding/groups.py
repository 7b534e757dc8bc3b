"""Group rows by their longest common *token* prefix, if sharing it is worth the cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from attrs import frozen

SHORTEST = 16  # tokens; a shorter prefix saves less than its overhead
ALONE = 256  # cost of one more batch, in tokens: its decoding steps run fewer rows at a time


@frozen(kw_only=True)
class PrefixGroup:
    """Rows, by their position in the input, whose first ``prefix`` tokens are equal."""

    rows: tuple[int, ...]
    prefix: int


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of leading tokens that both share."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, its) in enumerate(pairs) if mine != its), min(len(one), len(other)))


def grouped(rows: Sequence[Sequence[int]], *, cost: int = ALONE, shortest: int = SHORTEST) -> list[PrefixGroup]:
    """Split ``rows`` (the part of each that may be shared) into groups, each with its common prefix.

    ``cost`` of a group in tokens, besides its prefix. A common prefix of fewer than ``shortest`` tokens is not used.

    In sorted order, the prefix of a range is the minimum of the lengths that neighbors share. A range is cut at its
    minimum. A piece becomes its own group if the tokens it saves (its longer prefix is read once instead of by each
    row) exceed those it costs (its prefix is read again, and ``cost``).
    """
    order = sorted(range(len(rows)), key=lambda row: tuple(rows[row]))
    shared = [common(rows[one], rows[other]) for one, other in pairwise(order)]
    done: list[PrefixGroup] = []
    open_ranges = [(0, len(order))] if order else []
    while open_ranges:
        begin, end = open_ranges.pop()
        inner = shared[begin : end - 1]
        least = min(inner, default=0)
        left: list[int] = []
        for first, last in _pieces(inner, least, begin):
            longer = min(shared[first : last - 1], default=0)
            if (last - first - 1) * (longer - least) > least + cost:
                open_ranges.append((first, last))
            else:
                left.extend(order[first:last])
        if left:
            done.append(PrefixGroup(rows=tuple(left), prefix=least if least >= shortest and len(left) > 1 else 0))
    return sorted(done, key=lambda group: min(group.rows))


def _pieces(inner: Sequence[int], least: int, begin: int) -> list[tuple[int, int]]:
    """Cut the range between neighbors that share at most ``least`` tokens."""
    cuts = [begin + at + 1 for at, length in enumerate(inner) if length == least]
    return list(zip([begin, *cuts], [*cuts, begin + len(inner) + 1], strict=True))
