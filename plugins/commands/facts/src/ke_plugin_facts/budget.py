r"""The edit budget: how many edits a model holds before the perplexity of unrelated text suffers.

For n edits that one editor makes at once, with \Delta W the update of an edited matrix W::

    damage         D = ln(perplexity of the edited model / perplexity of the unedited model)
    relative norm  r = sqrt(sum over matrices of |\Delta W|_F^2 / |W|_F^2)

    (1)  r(n) = a n^b      growth of the norm
    (2)  D(n) = c n^p      damage, where p is about 2 b
    (3)  budget = the largest n with D(n) <= ln(1 + limit)

The parameters a, b, c and p belong to one editor with its options, on one model. A minimum of the loss has no gradient,
so D is about quadratic in a small update: p = 2 b. Norms are exact, but the damage of a few edits is mostly noise. So
the growth of the norms sets p for a few edits, and the measured damage moves p away from 2 b where it is large.

Both are fitted by weighted least squares. The variance of a measured y is NOISE^2 + (SCATTER y)^2: the perplexity of a
short text has a constant error, and other edits of the same number give other damages. D can be negative, so its
logarithm is not used. (2) also minimizes ((p - 2 b) / SPREAD)^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

NOISE, SCATTER, SPREAD = 0.005, 0.4, 0.3
"""Constant error of D, relative scatter of D between sets of edits, and deviation of p from 2 b."""
TYPICAL_GROWTH = 0.55
"""b where no norm was measured: of ``memit`` and ``alphaedit`` on ``smollm2-135m``."""
EXPONENTS = tuple(number / 100 for number in range(25, 251))
DEFAULT_LIMIT = 0.1
"""The rise of the perplexity that ``ke apply`` accepts."""
REACH = 10.0
"""A prediction reaches at most this factor beyond the largest measured number of edits."""


@frozen(kw_only=True)
class DecayPoint:
    """A measurement. ``edits``: at once. ``norm``: r, None if unknown. ``damage``: D."""

    edits: int
    norm: float | None = None
    damage: float


@frozen(kw_only=True)
class PowerLaw:
    """y = scale x^exponent."""

    scale: float
    exponent: float

    def at(self, x: float) -> float:
        """Return y."""
        return float(self.scale * x**self.exponent)

    def inverse(self, y: float) -> float:
        """Return x."""
        return float((y / self.scale) ** (1 / self.exponent))


def fit_power_law(
    pairs: Iterable[tuple[float, float]], *, noise: float = 0.0, expected: float | None = None
) -> PowerLaw | None:
    """Fit y = A x^B with B in EXPONENTS: the minimum of sum w (y - A x^B)^2, w = 1 / (noise^2 + (SCATTER y)^2).

    For each B, A = sum w y x^B / sum w x^(2 B). ``expected``: a value of B, which adds ((B - expected) / SPREAD)^2.
    None without a pair, or without ``expected`` with fewer than two different x, or if A is not positive.
    """
    rows = [(x, y, 1 / (noise**2 + (SCATTER * y) ** 2)) for x, y in pairs]
    if len({x for x, _, _ in rows}) < (2 if expected is None else 1):
        return None
    fits = []
    for exponent in EXPONENTS:
        powers = [x**exponent for x, _, _ in rows]
        scale = sum(w * y * power for (_, y, w), power in zip(rows, powers, strict=True))
        scale /= sum(w * power**2 for (_, _, w), power in zip(rows, powers, strict=True))
        error = sum(w * (y - scale * power) ** 2 for (_, y, w), power in zip(rows, powers, strict=True))
        if expected is not None:
            error += ((exponent - expected) / SPREAD) ** 2
        fits.append((error, PowerLaw(scale=scale, exponent=exponent)))
    best = min(fits, key=lambda fit: fit[0])[1]
    return best if best.scale > 0 else None


def norm_law(points: Sequence[DecayPoint]) -> PowerLaw | None:
    """Fit (1), from edits to the relative norm. None with norms of fewer than two numbers of edits."""
    return fit_power_law((one.edits, one.norm) for one in points if one.norm is not None)


def decay_law(points: Sequence[DecayPoint]) -> PowerLaw | None:
    """Fit (2), from edits to damage. None without points, or if the damage is not positive."""
    growth = norm_law(points)
    expected = 2 * (growth.exponent if growth else TYPICAL_GROWTH)
    return fit_power_law(((one.edits, one.damage) for one in points), noise=NOISE, expected=expected)


def damage_of(rise: float) -> float:
    """Return D of a rise of the perplexity, given as a fraction."""
    return math.log1p(rise)


def rise_of(damage: float) -> float:
    """Return the rise of the perplexity, as a fraction. Infinite if it is too large for a float."""
    try:
        return math.expm1(damage)
    except OverflowError:
        return math.inf


def percent(fraction: float) -> str:
    """Return a fraction as a percentage with three digits."""
    return f"{100 * fraction:.3g}%"


def relative_norm(norms: Iterable[tuple[float, float]]) -> float:
    """Return r, from the norms of update and weight of each edited matrix."""
    return math.sqrt(sum((update / weight) ** 2 for update, weight in norms if weight))
