"""The bounds of ``--min`` and ``--max``, and the suites that they fit. Without torch."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ke_core.plugin import BadConfig
from ke_weights.suites import METRICS, Check


@frozen(kw_only=True)
class Bound:
    """``--min`` (``least``) or ``--max`` of one number."""

    metric: str
    value: float
    least: bool

    def holds(self, value: float) -> bool:
        """Return whether a number is within the bound, inclusive."""
        return value >= self.value if self.least else value <= self.value


def bounds(least: Sequence[str], most: Sequence[str]) -> tuple[Bound, ...]:
    """Parse ``efficacy=0.95`` after ``--min`` and ``--max``. Raises BadConfig."""
    return tuple(_bound(text, least=True) for text in least) + tuple(_bound(text, least=False) for text in most)


def needed(wanted: Sequence[Bound], suite: Sequence[Check]) -> None:
    """Raise BadConfig for a bound on a number that the suite cannot measure, before a model is loaded."""
    kinds = {"efficacy": "changed", "forgetting": "kept", "preference": ""}
    for bound in wanted:
        kind = kinds.get(bound.metric, bound.metric)
        there = any(one.kind == kind if kind else one.wrong and one.expect and one.kind != "kept" for one in suite)
        if not there:
            what = f"kind {kind!r}" if kind else "'not' and 'expect'"
            raise BadConfig(
                f"{bound.metric} has a bound, but the suite has no line with {what}",
                hint="add such lines to the suite, or remove the bound",
            )


def _bound(text: str, *, least: bool) -> Bound:
    name, equals, value = text.partition("=")
    flag = "--min" if least else "--max"
    try:
        number = float(value)
    except ValueError as error:
        raise BadConfig(f"{flag} {text}: not a number", hint=f"write {flag} {METRICS[0]}=0.95") from error
    if not equals or name not in METRICS:
        raise BadConfig(f"{flag} {text}: unknown metric {name!r}", hint=f"use one of {', '.join(METRICS)}")
    if not 0 <= number <= 1:  # NaN too
        raise BadConfig(f"{flag} {text}: must be between 0 and 1", hint=f"write {flag} {name}=0.95")
    return Bound(metric=name, value=number, least=least)
