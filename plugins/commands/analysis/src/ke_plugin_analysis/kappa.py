"""Cohen's kappa: the agreement of a judge with manual labels.

With p the fraction of items on which both agree, and e the fraction on which they would agree by chance (Cohen 1960),
kappa = (p - e) / (1 - e).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ke_core.app import DIGITS, RESAMPLES, Agreement, percentile_interval


def measure_agreement(
    by_hand: Sequence[str], by_judge: Sequence[str], *, seed: int = 0, units: Sequence[str] | None = None
) -> Agreement:
    """Return kappa of two labelings of the same items, with a 95% percentile bootstrap interval.

    ``units``: the resampling unit of each item (its case). Without ``units``, items are resampled one by one.
    """
    labels = {label: number for number, label in enumerate(sorted({*by_hand, *by_judge}))}
    pairs = np.asarray([labels[a] * len(labels) + labels[b] for a, b in zip(by_hand, by_judge, strict=True)])
    generator = np.random.default_rng(seed)
    groups = _groups(units, len(pairs))
    drawn = [
        kappa
        for _resample in range(RESAMPLES)
        for some in [generator.integers(0, len(groups), size=len(groups))]
        if (kappa := _kappa(pairs[np.concatenate([groups[at] for at in some])], len(labels))) is not None
    ]
    kappa = _kappa(pairs, len(labels))
    known = kappa is not None and drawn and len(groups) > 1
    agreed = sum(a == b for a, b in zip(by_hand, by_judge, strict=True))
    return Agreement(
        n=len(by_hand),
        agreed=agreed,
        kappa=None if kappa is None else round(kappa, DIGITS),
        interval=percentile_interval(np.asarray(drawn)) if known else None,
    )


def _groups(units: Sequence[str] | None, n: int) -> list[NDArray[np.int64]]:
    """Return the indexes of the items of each resampling unit. Without ``units``, each item is one."""
    found: dict[str, list[int]] = {}
    for place in range(n):
        found.setdefault(str(place) if units is None else units[place], []).append(place)
    return [np.asarray(places) for places in found.values()]


def _kappa(pairs: NDArray[np.int64], labels: int) -> float | None:
    table = np.bincount(pairs, minlength=labels * labels).reshape(labels, labels) / len(pairs)
    chance = float(table.sum(axis=1) @ table.sum(axis=0))
    return None if chance >= 1 else float((np.trace(table) - chance) / (1 - chance))
