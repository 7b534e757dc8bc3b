"""Compare two runs over the same queries: the differences and their significance.

Every observation of a metric is paired with the same observation of the other run. The estimate is the mean difference
of the pairs. Dependent pairs form one resampling unit: the questions of a case, the cases with the same edit, and the
cases that shared one edited model in either run.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from attrs import evolve, field, frozen

from ke_core.app import bootstrap, bootstrap_average
from ke_core.plugin import SHARE, Interval, MetricSpec, Phase
from ke_plugin_analysis.observations import Observations

Units = tuple[list[str], list[str]]
"""The resampling unit of each pair in each run."""


@frozen(kw_only=True)
class Pairs:
    """Observations in two runs, 40 bytes each. ``own``: their own units. ``batch``: a resampling unit is a batch."""

    first: array[float] = field(factory=partial(array, "d"))
    second: array[float] = field(factory=partial(array, "d"))
    units: Units = field(factory=lambda: ([], []))
    own: list[str] = field(factory=list)
    batch: bool = False

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.first)

    @property
    def differences(self) -> list[float]:
        """The second value minus the first, of each pair."""
        return [second - first for first, second in zip(self.first, self.second, strict=True)]

    def add(self, first: float, second: float, units: tuple[str, str], own: str) -> None:
        """Add a pair. ``own``: its own unit, which is the same in both runs."""
        self.first.append(first)
        self.second.append(second)
        self.own.append(own)
        for of_run, unit in zip(self.units, units, strict=True):
            of_run.append(unit)


@frozen(kw_only=True)
class Difference:
    """One aspect of a metric in two runs, over the ``n`` pairs that both have observed (average: over ``n`` units).

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


Place = tuple[str, str, int]
"""Of one case: unit, query (empty if the metric does not name it) and a counter of such observations."""


def differences(spec: MetricSpec, first: Observations, second: Observations, *, seed: int) -> list[Difference]:
    """Return every aspect of a metric that both runs have observed, then the metric's averages.

    Styles that both runs have are paired with themselves. If the runs share no style (one of them uses the method's own
    prompt), each style is paired with each.
    """
    cells = first.cells(), second.cells()
    found: list[Difference] = []
    parts: dict[tuple[str, Phase, tuple[str, str]], list[Pairs]] = {}

    def about(aspect: str, phase: Phase, styles: tuple[str, str]) -> dict[str, Any]:
        measure = spec.measures.get(aspect, SHARE)
        return {"metric": spec.name, "aspect": aspect, "phase": phase, "styles": styles, "measure": measure}

    for aspect, phase in dict.fromkeys((aspect, phase) for aspect, phase, _style in (*cells[0], *cells[1])):
        own_styles, other_styles = ([cell[2] for cell in of if cell[:2] == (aspect, phase)] for of in cells)
        for styles in paired_styles(own_styles, other_styles):
            rows = [of[aspect, phase, style] for of, style in zip(cells, styles, strict=True)]
            pairs, unpaired = _paired((first, second), rows, phase)
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


def paired_styles(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of styles to compare: the common styles, or all combinations if there is none."""
    shared = [style for style in first if style in second]
    return [(style, style) for style in shared] or [(one, other) for one in first for other in second]


def _paired(runs: tuple[Observations, Observations], rows: Sequence[Iterable[int]], phase: Phase) -> tuple[Pairs, int]:
    """Return the pairs of ``rows`` of each run, and the number of observations without a partner.

    A case that only one of the runs edited is not paired: its right answers differ. Several unnamed observations of a
    case (the hops of a method) are paired in their order if both runs have equally many. The order changes neither the
    mean nor the resampling.
    """
    batches = [of.shares(phase) for of in runs]
    made = Pairs(batch=any(batches))
    own, other = (of.by_case(some) for of, some in zip(runs, rows, strict=True))
    one_edited = runs[0].controls ^ runs[1].controls
    for case, some in own.items():
        if case in one_edited:
            continue
        places = _placed(runs[0], some), _placed(runs[1], other.get(case, ()))
        counts = [Counter(place[:2] for place in of) for of in places]
        for place, row in places[0].items():
            partner = places[1].get(place)
            if partner is None or counts[0][place[:2]] != counts[1][place[:2]]:
                continue
            one, two = runs[0].values[row], runs[1].values[partner]
            if not (math.isnan(one) or math.isnan(two)):
                units = runs[0].unit(row, batches=batches[0]), runs[1].unit(partner, batches=batches[1])
                made.add(one, two, units, place[0])
    seen = sum(not math.isnan(of.values[row]) for of, some in zip(runs, rows, strict=True) for row in some)
    return made, seen - 2 * len(made)


def _placed(of: Observations, rows: Iterable[int]) -> dict[Place, int]:
    """Return the rows of one case by place."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[Place, int] = {}
    for row in rows:
        which = of.place(row)
        found[(*which, seen[which])] = row
        seen[which] += 1
    return found


def _drawn(units: Units) -> list[str]:
    """Return the resampling unit of each pair: pairs that share a unit in either run have the same one (union-find)."""
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def root(of: tuple[int, str]) -> tuple[int, str]:
        while (above := parent.setdefault(of, of)) != of:
            parent[of] = parent[above]
            of = parent[of]
        return of

    for first, second in zip(*units, strict=True):
        parent[root((1, second))] = root((0, first))
    return [root((0, first))[1] for first in units[0]]


def _difference(pairs: Pairs, *, seed: int, **about: Any) -> Difference:
    gaps = pairs.differences
    interval = (
        bootstrap(gaps, _drawn(pairs.units), seed=seed) if len(set(gaps)) > 1 else None
    )  # otherwise, all resamples are equal
    made = Difference(
        first=math.fsum(pairs.first) / len(pairs),
        second=math.fsum(pairs.second) / len(pairs),
        n=len(pairs),
        interval=interval,
        note="" if interval else _reason(pairs.units, batch=pairs.batch),
        **about,
    )
    if {*pairs.first, *pairs.second} - {0.0, 1.0}:
        return made
    lost, gained = sum(gap < 0 for gap in gaps), sum(gap > 0 for gap in gaps)
    return evolve(made, lost=lost, gained=gained, p=mcnemar(lost, gained))


def _average(parts: Sequence[Pairs], *, of: int, seed: int, **about: Any) -> Difference:
    """Return the unweighted mean of the parts' differences. A unit with pairs in several parts is resampled once."""
    first, second = ([unit for pairs in parts for unit in pairs.units[run]] for run in (0, 1))
    every = (first, second)
    gaps = [pairs.differences for pairs in parts]
    units = iter(_drawn(every))
    samples = [(own, [next(units) for _gap in own]) for own in gaps]
    differ = len({gap for own in gaps for gap in own}) > 1  # otherwise, all resamples are equal
    interval = bootstrap_average(samples, seed=seed) if differ else None
    notes = [f"{len(parts)} of {of} were observed"] if len(parts) < of else []

    def mean(values: Sequence[Sequence[float]]) -> float:
        return math.fsum(math.fsum(some) / len(some) for some in values) / len(values)

    return Difference(
        first=mean([pairs.first for pairs in parts]),
        second=mean([pairs.second for pairs in parts]),
        n=len({unit for pairs in parts for unit in pairs.own}),
        interval=interval,
        note="; ".join([*notes, *([] if interval else [_reason(every, batch=parts[0].batch)])]),
        **about,
    )


def _reason(units: Units, *, batch: bool) -> str:
    """Return why there is no interval."""
    if len(set(_drawn(units))) > 1:
        return "all pairs alike, no interval"
    return f"one {'batch' if batch else 'unit'}, no interval"
