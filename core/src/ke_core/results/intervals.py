"""Confidence intervals: the percentile bootstrap over units that are independent of one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ke_core.data.results import Interval

RESAMPLES = 1_000
LEVEL = 0.95
AT_ONCE = 2_000_000  # numbers drawn together: bounds the memory, not the result
DIGITS = 6  # beyond these, sums differ between machines


def bootstrap(values: Sequence[float], units: Sequence[str], *, seed: int) -> Interval | None:
    """A 95 % interval of the mean of ``values``; None where all share one unit.

    Observations of one unit (the questions of a case, the cases of a batch) stand and fall together, so
    whole units are drawn with replacement, 1,000 times, and each time the mean is taken over all
    observations drawn (cluster bootstrap: Davison and Hinkley 1997, section 3.8). The same seed gives the
    same interval.
    """
    names, index = np.unique(np.asarray(units, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return None
    sums = np.bincount(index, weights=np.asarray(values, dtype=np.float64)).astype(np.float64)
    counts = np.bincount(index).astype(np.float64)
    low, high = np.quantile(_means(sums, counts, seed), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(low=round(float(low), DIGITS), high=round(float(high), DIGITS), level=LEVEL)


def _means(sums: NDArray[np.float64], counts: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """The mean in each resample, float64 [resamples]."""
    generator = np.random.default_rng(seed)
    n = len(sums)
    rows = max(1, AT_ONCE // n)
    means = []
    for start in range(0, RESAMPLES, rows):
        drawn = generator.integers(0, n, size=(min(rows, RESAMPLES - start), n))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    return np.concatenate(means)
