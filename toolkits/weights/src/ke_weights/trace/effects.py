"""Averages over facts: the indirect effect of each layer by token role, with its interval. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from ke_weights.trace.settings import FactTrace

Role = Literal["first subject", "middle subject", "last subject", "next", "further", "last"]
LAST_SUBJECT: Role = "last subject"
LAST: Role = "last"
NORMAL = 1.96  # standard errors in half of a 95% interval


@frozen(kw_only=True)
class EffectCurve:
    """Effect by layer, half the width of its 95% interval, and number of averaged rows."""

    effect: tuple[float, ...]
    interval: tuple[float, ...]
    count: int

    @property
    def best(self) -> int:
        """The layer with the largest effect."""
        return int(np.argmax(self.effect))


@frozen(kw_only=True)
class Effects:
    """``lines``: by curve, then by role; a role without tokens is missing. ``high`` and ``low``: mean scores."""

    facts: int
    high: float
    low: float
    lines: Mapping[str, Mapping[Role, EffectCurve]]
    at_subject: Mapping[str, NDArray[np.float64]] = field(repr=False)
    """By curve the effects at the subject's last token, [facts, n]."""

    @property
    def total(self) -> float:
        """The average total effect."""
        return self.high - self.low


def roles(fact: FactTrace) -> dict[Role, range]:
    """Return the positions of the six token groups.

    A subject of one token is both first and last. A token directly after the subject that ends the prompt is both next
    and last. Groups may be empty.
    """
    start, end = fact.subject_range
    length = len(fact.input_ids)
    return {
        "first subject": range(start, start + 1),
        "middle subject": range(start + 1, end - 1),
        LAST_SUBJECT: range(end - 1, end),
        "next": range(end, min(end + 1, length)),
        "further": range(end + 1, length - 1),
        LAST: range(length - 1, length),
    }


def effects(facts: Sequence[FactTrace]) -> Effects:
    """Average the traced facts; skipped facts do not count.

    Each score is compared with the low score of its own prompt. The interval uses the count of its own group (the
    published one uses that of another group).
    """
    traced = [fact for fact in facts if fact.low_score is not None]
    rows: dict[str, dict[Role, list[NDArray[np.float64]]]] = {}
    for fact in traced:
        for curve, scores in fact.scores.items():
            for role, values in _by_role(fact, scores).items():
                rows.setdefault(curve, {}).setdefault(role, []).extend(values)
    return Effects(
        facts=len(traced),
        high=float(np.mean([fact.high_score for fact in traced])),
        low=float(np.mean([fact.low_score for fact in traced])),
        lines={curve: {role: _line(found) for role, found in by.items() if found} for curve, by in rows.items()},
        at_subject={curve: np.array(by[LAST_SUBJECT]) for curve, by in rows.items()},
    )


def _by_role(fact: FactTrace, scores: Sequence[Sequence[float]]) -> dict[Role, list[NDArray[np.float64]]]:
    """Return the effects of each role; of the last subject token only if no other was traced."""
    assert fact.low_score is not None
    effect = dict(zip(fact.tokens, np.array(scores) - fact.low_score, strict=True))
    whole = len(fact.tokens) == len(fact.input_ids)
    groups = roles(fact) if whole else {LAST_SUBJECT: roles(fact)[LAST_SUBJECT]}
    return {role: [effect[at] for at in positions] for role, positions in groups.items()}


def _line(found: Sequence[NDArray[np.float64]]) -> EffectCurve:
    values = np.array(found)
    half = NORMAL * standard_error(values)
    return EffectCurve(effect=tuple(values.mean(0).tolist()), interval=tuple(half.tolist()), count=len(values))


def standard_error(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard error of the mean over rows [rows, n]; zero for a single row."""
    found: NDArray[np.float64] = values.std(0) / np.sqrt(len(values))
    return found
