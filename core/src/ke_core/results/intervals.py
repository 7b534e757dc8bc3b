"""Confidence intervals over units that are independent of one another: the percentile bootstrap.

If all values of a fraction are equal, all resamples are equal and the interval would have no width. The exact binomial
interval of the units is used instead (Clopper and Pearson 1934): its bound limits how many units differ. For fractions
from -1 to 1, they differ in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ke_core.spec.results import Interval

RESAMPLES = 1_000
LEVEL = 0.95
AT_ONCE = 250_000  # numbers sampled at once: limits the memory, without effect on the result
DIGITS = 6  # further digits differ between machines


Sample = tuple[Sequence[float], Sequence[str]]
"""Observations, and the unit of each."""


def bootstrap(
    values: Sequence[float], units: Sequence[str], *, seed: int, lowest: float | None = None
) -> Interval | None:
    """Return a 95% interval of the mean of ``values``, or None if all have the same unit.

    Observations of one unit (the questions of a case, the cases of a batch) depend on one another, so
    whole units are sampled with replacement, 1,000 times, and each time the mean is taken over all
    sampled observations (cluster bootstrap: Davison and Hinkley 1997, section 3.8). The same seed gives the
    same interval. ``lowest``: the values are fractions from 0 or from -1 to 1. Their interval is exact if all are
    equal.
    """
    names, index = np.unique(np.asarray(units, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return None
    if lowest is not None and _alike(values):
        return _exact(values[0], [len(names)], lowest)
    sums = np.bincount(index, weights=np.asarray(values, dtype=np.float64)).astype(np.float64)
    return percentile_interval(_means(sums, np.bincount(index).astype(np.float64), seed))


def bootstrap_average(samples: Sequence[Sample], *, seed: int, lowest: float | None = None) -> Interval | None:
    """Return a 95% interval of the unweighted mean of several means, or None if all observations have the same unit.

    The same units are sampled for all samples, because a unit has observations in several. Resamples that contain no
    observation of some sample are skipped. ``lowest``: as in ``bootstrap``.
    """
    every = [unit for _values, units in samples for unit in units]
    names = np.unique(np.asarray(every, dtype=object).astype(str))
    if len(names) < 2:
        return None
    numbers = [value for values, _units in samples for value in values]
    if lowest is not None and _alike(numbers):
        return _exact(numbers[0], [len(set(units)) for _values, units in samples], lowest)
    sums, counts = np.zeros((len(samples), len(names))), np.zeros((len(samples), len(names)))
    for row, (values, units) in enumerate(samples):
        at = np.searchsorted(names, np.asarray(units, dtype=object).astype(str))
        np.add.at(sums[row], at, np.asarray(values, dtype=np.float64))
        np.add.at(counts[row], at, 1.0)
    generator = np.random.default_rng(seed)
    found = []
    for _resample in range(RESAMPLES):
        times = np.bincount(generator.integers(0, len(names), size=len(names)), minlength=len(names))
        drawn = counts @ times
        if drawn.all():
            found.append(float((sums @ times / drawn).mean()))
    return percentile_interval(np.asarray(found)) if found else None


def percentile_interval(means: NDArray[np.float64]) -> Interval:
    """Return the central interval of the means of the resamples."""
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(low=round(float(low), DIGITS), high=round(float(high), DIGITS), level=LEVEL)


def _alike(values: Sequence[float]) -> bool:
    return len(set(values)) == 1


def _exact(value: float, counts: Sequence[int], lowest: float) -> Interval:
    """Return the exact interval of a mean of fractions that all equal ``value``. ``counts``: the units of each.

    If a fraction p of units differs, n units are equal with probability (1 - p)^n. The bound is the p for which this is
    (1 - LEVEL) / 2. If a mean of fractions exceeds the mean of their bounds, some fraction exceeds its own bound. The
    units that differ have values from ``lowest`` to 1.
    """
    far = round(fmean(1 - ((1 - LEVEL) / 2) ** (1 / n) for n in counts), DIGITS)
    low, high = value - far * (value - lowest), value + far * (1.0 - value)
    return Interval(low=round(low, DIGITS), high=round(high, DIGITS), level=LEVEL)


def _means(sums: NDArray[np.float64], counts: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the mean of each resample, float64 [resamples]."""
    generator = np.random.default_rng(seed)
    n = len(sums)
    rows = max(1, AT_ONCE // n)
    means = []
    for start in range(0, RESAMPLES, rows):
        drawn = generator.integers(0, n, size=(min(rows, RESAMPLES - start), n))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    return np.concatenate(means)
