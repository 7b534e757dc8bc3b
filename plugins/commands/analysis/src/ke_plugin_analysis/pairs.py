"""Compare two runs over the same queries: the differences and their significance.

Every observation of a metric is paired with the same observation of the other run. The estimate is the mean difference
of the pairs. Dependent pairs form one resampling unit: the questions of a case, the cases with the same edit, and the
cases that shared one edited model in either run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from attrs import evolve, frozen

from ke_core.app import bootstrap, bootstrap_average
from ke_core.plugin import QUERY_TAG, SHARE, Interval, MetricSpec, Phase
from ke_plugin_analysis.observations import Observation


@frozen(kw_only=True)
class Pair:
    """One observation in two runs. ``units``: its resampling unit in each; ``batch``: a unit is a batch."""

    first: float
    second: float
    units: tuple[str, str]
    batch: bool = False

    @property
    def difference(self) -> float:
        """The second value minus the first."""
        return self.second - self.first


@frozen(kw_only=True)
class Difference:
    """One aspect of a metric in two runs, over the ``n`` pairs that both have observed.

    ``styles``: the prompt styles of the first and the second run. ``first`` and ``second``: means over the pairs.
    ``unpaired``: observations without a value in the other run. ``lost`` and ``gained``: number of pairs that are 1
    only in the first or only in the second run; None if values are not 0 or 1. ``p``: McNemar's test. ``adjusted``:
    the same, corrected for several comparisons.
    """

    metric: str
    aspect: str
    phase: Phase
    styles: tuple[str, str]
    first: float
    second: float
    n: int
    unpaired: int = 0
    interval: Interval | None = None
    note: str = ""
    measure: str = SHARE
    lost: int | None = None
    gained: int | None = None
    p: float | None = None
    adjusted: float | None = None

    @property
    def difference(self) -> float:
        """The second value minus the first."""
        return self.second - self.first


Cell = tuple[str, Phase, str]
"""Aspect, phase, style."""
Place = tuple[str, str, str, int]
"""Case, unit, query (empty if the metric does not name it) and a counter of such observations."""


def differences(
    spec: MetricSpec, first: Sequence[Observation], second: Sequence[Observation], *, seed: int
) -> list[Difference]:
    """Return every aspect of a metric that both runs have observed, then the metric's averages.

    Styles that both runs have are paired with themselves. If the runs share no style (one of them uses the method's own
    prompt), each style is paired with each.
    """
    cells = _cells(first), _cells(second)
    found: list[Difference] = []
    parts: dict[tuple[str, Phase, tuple[str, str]], list[list[Pair]]] = {}

    def about(aspect: str, phase: Phase, styles: tuple[str, str]) -> dict[str, Any]:
        measure = spec.measures.get(aspect, SHARE)
        return {"metric": spec.name, "aspect": aspect, "phase": phase, "styles": styles, "measure": measure}

    for aspect, phase in dict.fromkeys((aspect, phase) for aspect, phase, _style in (*cells[0], *cells[1])):
        own_styles, other_styles = ([cell[2] for cell in of if cell[:2] == (aspect, phase)] for of in cells)
        for styles in paired_styles(own_styles, other_styles):
            own, other = (of[aspect, phase, style] for of, style in zip(cells, styles, strict=True))
            pairs, unpaired = _paired(own, other)
            if not pairs:
                continue
            found.append(_difference(pairs, seed=seed, unpaired=unpaired, **about(aspect, phase, styles)))
            for average, of in spec.averages.items():
                if aspect in of:
                    parts.setdefault((average, phase, styles), []).append(pairs)
    return found + [
        _average(some, of=len(spec.averages[average]), seed=seed, **about(average, phase, styles))
        for (average, phase, styles), some in parts.items()
    ]


def mcnemar(lost: int, gained: int) -> float:
    """Return the exact two-sided p of McNemar's test (1947): changes in both directions are equally probable.

    It is twice the binomial tail of the rarer direction, at most 1; 1 if no pair differs.
    """
    n = lost + gained
    tail, ways = 0, 1  # ways to choose k of n, from k = 0
    for k in range(min(lost, gained) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)
    return min(1.0, float(Fraction(2 * tail, 2**n)))


def holm(found: Sequence[float]) -> list[float]:
    """Correct p values by Holm's step-down method (1979): the smallest is multiplied by their number, and so on."""
    order = sorted(range(len(found)), key=lambda at: found[at])
    adjusted = [0.0] * len(found)
    least = 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, (len(found) - rank) * found[at]))
        adjusted[at] = least
    return adjusted


def corrected(tables: Sequence[Sequence[Difference]]) -> list[list[Difference]]:
    """Return the tables with ``adjusted``. Each table compares one run with the same first run.

    The tests of one family have the same metric, aspect and phase, and the same style of the first run.
    """
    families: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for run, table in enumerate(tables):
        for row, one in enumerate(table):
            if one.p is not None:
                families.setdefault((one.metric, one.aspect, one.phase, one.styles[0]), []).append((run, row))
    made = [list(table) for table in tables]
    for places in families.values():
        for (run, row), p in zip(places, holm([tables[run][row].p or 0.0 for run, row in places]), strict=True):
            made[run][row] = evolve(made[run][row], adjusted=p)
    return made


def _cells(seen: Iterable[Observation]) -> dict[Cell, list[Observation]]:
    found: dict[Cell, list[Observation]] = {}
    for one in seen:
        found.setdefault((one.value.aspect, one.value.phase, one.value.style), []).append(one)
    return {cell: own for cell, own in found.items() if any(one.value.value is not None for one in own)}


def paired_styles(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of styles to compare: the common styles, or all combinations if there is none."""
    shared = [style for style in first if style in second]
    return [(style, style) for style in shared] or [(one, other) for one in first for other in second]


def _paired(first: Sequence[Observation], second: Sequence[Observation]) -> tuple[list[Pair], int]:
    """Return the pairs, and the number of observations without a partner.

    Several unnamed observations of a case (the hops of a method) are paired in their order if both runs have equally
    many. The order changes neither the mean nor the resampling.
    """
    places = _placed(first), _placed(second)
    counts = tuple(_counts(of) for of in places)
    both = [place for place in places[0] if place in places[1] and counts[0][place[:3]] == counts[1][place[:3]]]
    pairs: list[Pair] = []
    for place in both:
        one, other = places[0][place], places[1][place]
        if one.value.value is not None and other.value.value is not None:
            batch = "batch" in (one.unit, other.unit)
            units = (one.value.unit, other.value.unit)
            pairs.append(Pair(first=one.value.value, second=other.value.value, units=units, batch=batch))
    seen = sum(one.value.value is not None for of in places for one in of.values())
    return pairs, seen - 2 * len(pairs)


def _placed(seen: Iterable[Observation]) -> dict[Place, Observation]:
    found: dict[Place, Observation] = {}
    for one in seen:
        which = (one.case, one.own, one.value.tags.get(QUERY_TAG, ""))
        number = 0
        while (*which, number) in found:
            number += 1
        found[(*which, number)] = one
    return found


def _counts(of: Mapping[Place, object]) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for place in of:
        found[place[:3]] = found.get(place[:3], 0) + 1
    return found


def _drawn(pairs: Sequence[Pair]) -> list[str]:
    """Return the resampling unit of each pair: pairs that share a unit in either run have the same one (union-find)."""
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def root(of: tuple[int, str]) -> tuple[int, str]:
        while (above := parent.setdefault(of, of)) != of:
            parent[of] = parent[above]
            of = parent[of]
        return of

    for pair in pairs:
        parent[root((1, pair.units[1]))] = root((0, pair.units[0]))
    return [root((0, pair.units[0]))[1] for pair in pairs]


def _difference(pairs: Sequence[Pair], *, seed: int, **about: Any) -> Difference:
    gaps = [pair.difference for pair in pairs]
    interval = bootstrap(gaps, _drawn(pairs), seed=seed) if _differ(pairs) else None
    made = Difference(
        first=math.fsum(pair.first for pair in pairs) / len(pairs),
        second=math.fsum(pair.second for pair in pairs) / len(pairs),
        n=len(pairs),
        interval=interval,
        note="" if interval else _reason(pairs),
        **about,
    )
    if any({pair.first, pair.second} - {0.0, 1.0} for pair in pairs):
        return made
    lost, gained = sum(gap < 0 for gap in gaps), sum(gap > 0 for gap in gaps)
    return evolve(made, lost=lost, gained=gained, p=mcnemar(lost, gained))


def _average(parts: Sequence[Sequence[Pair]], *, of: int, seed: int, **about: Any) -> Difference:
    """Return the unweighted mean of the parts' differences. A unit with pairs in several parts is resampled once."""
    every = [pair for pairs in parts for pair in pairs]
    units = iter(_drawn(every))
    samples = [([pair.difference for pair in pairs], [next(units) for _pair in pairs]) for pairs in parts]
    interval = bootstrap_average(samples, seed=seed) if _differ(every) else None
    notes = [f"{len(parts)} of {of} were observed"] if len(parts) < of else []

    def mean(values: Sequence[Sequence[float]]) -> float:
        return math.fsum(math.fsum(some) / len(some) for some in values) / len(values)

    return Difference(
        first=mean([[pair.first for pair in pairs] for pairs in parts]),
        second=mean([[pair.second for pair in pairs] for pairs in parts]),
        n=len({unit for _values, names in samples for unit in names}),
        interval=interval,
        note="; ".join([*notes, *([] if interval else [_reason(every)])]),
        **about,
    )


def _differ(pairs: Sequence[Pair]) -> bool:
    """Return whether the pairs differ. Otherwise, all resamples are equal."""
    return len({pair.difference for pair in pairs}) > 1


def _reason(pairs: Sequence[Pair]) -> str:
    """Return why there is no interval."""
    if len(set(_drawn(pairs))) > 1:
        return "all pairs alike, no interval"
    return f"one {'batch' if pairs[0].batch else 'unit'}, no interval"
