"""The answers of a case as metrics read them: one query in one phase and style, or the reason for a missing answer.

The reasons that several metrics share are defined here, because reports count reasons by their text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from ke_core.spec.queries import EFFICACY, Phase, Probe, Query, expected
from ke_core.spec.results import Answer, CaseRecord, Failure, Outcome, Reply, Scored, Value, Verdict

NOT_ON_RECORD = "a question has no recorded answer"
EDITS_WITHHELD = "a control: its edits were not made"
JUDGE_UNSURE = "the judge could not decide"
NO_TEXT = "there is no text answer: "


class NoValue(Exception):
    """Raised by a metric that cannot compute a value. Its text is the reason of the missing value."""


def measured(aspect: str, measure: Callable[[], float], *, why: str = "", **fields: Any) -> Value:
    """Return the observation that ``measure`` computes, or a missing one with the reason if it raises NoValue.

    ``why``: a reason not to compute it. ``fields``: further fields of ``Value``.
    """
    value = None
    if not why:
        try:
            value = float(measure())
        except NoValue as reason:
            why = str(reason)
        except OverflowError:
            value = math.inf
        if value is not None and math.isinf(value):
            value, why = None, "too large for a number"
    return Value(aspect=aspect, value=value, skipped_because=why, **fields)


def withheld(record: CaseRecord, phase: Phase) -> str:
    """Return why a control has no value about its own edits, which were not made. Empty for other cases and before."""
    return EDITS_WITHHELD if phase == "after" and not record.edited else ""


def outcome_of(record: CaseRecord, phase: Phase, style: str, query: str) -> Outcome:
    """Return the outcome of a query by its id. Raises NoValue if the query has no recorded answer."""
    found = record.outcomes.get((phase, style, query))
    if found is None:
        raise NoValue(NOT_ON_RECORD)
    return found


def verdict_of(outcome: Outcome) -> Verdict:
    """Return the verdict. Raises NoValue if the judge could not decide."""
    if outcome.judgment.verdict is Verdict.UNSURE:
        raise NoValue(JUDGE_UNSURE)
    return outcome.judgment.verdict


def log_probabilities(reply: Reply) -> Scored:
    """Return the reply if it has log-probabilities. Raises NoValue otherwise."""
    if isinstance(reply, Failure):
        raise NoValue(reply.message or reply.error)
    if not isinstance(reply, Scored):
        raise NoValue("the answer is a text, not log-probabilities")
    return reply


@frozen(kw_only=True)
class Observed:
    """One query in one phase and style. ``query`` has the answers that were right then. Without an ``outcome``,
    ``missing`` is the reason.
    """

    probe: Probe
    query: Query
    phase: Phase
    style: str
    unit: str
    outcome: Outcome | None = None
    missing: str = ""

    @property
    def answer(self) -> Answer | None:
        """The text answer, if there is one."""
        reply = None if self.outcome is None else self.outcome.reply
        return reply if isinstance(reply, Answer) else None

    @property
    def wordless(self) -> str:
        """The reason why there is no text answer. Empty if there is one."""
        if self.missing or self.answer is not None:
            return self.missing
        reply = None if self.outcome is None else self.outcome.reply
        return NO_TEXT + (reply.error if isinstance(reply, Failure) else "log-probabilities")

    def value(self, aspect: str, value: float | None, why: str = "") -> Value:
        """Return an observation with the tags ``aspect`` and ``query``. ``why``: the reason if there is no value."""
        return Value(
            aspect=aspect,
            value=value,
            phase=self.phase,
            style=self.style,
            unit=self.unit,
            tags={"aspect": self.probe.aspect, "query": self.query.id},
            skipped_because=why if value is None else "",
        )


def observed(record: CaseRecord, *phases: Phase) -> Iterator[Observed]:
    """Yield each query, once for each style and each of ``phases``.

    Without a text answer, ``outcome`` is None and ``missing`` is the reason. A query that was not sent is yielded once,
    without a style. A query that several probes share is yielded for the
    first of them. The resampling unit is the case, or the edit if the query is about the edit's own fact.

    Raises ValueError without a phase.
    """
    if not phases:
        raise ValueError('observed() needs at least one phase: none given. Pass "before", "after" or both.')
    return _observed(record, phases)


def _observed(record: CaseRecord, phases: Sequence[Phase]) -> Iterator[Observed]:
    seen: set[tuple[Phase, str]] = set()
    for probe in record.case.probes:
        unit = ",".join(probe.edits) if probe.aspect == EFFICACY else record.case.id
        for phase in phases:
            for query in probe.queries if probe.asked(phase) else ():
                if (phase, query.id) in seen or query.continuations:
                    continue
                seen.add((phase, query.id))
                styles = [style for style in record.styles(phase) if (phase, style, query.id) in record.outcomes]
                for style in styles or [""]:
                    outcome = record.outcomes.get((phase, style, query.id))
                    yield Observed(
                        probe=probe,
                        query=expected(query, probe, phase, edited=record.edited),
                        phase=phase,
                        style=style,
                        unit=unit,
                        outcome=outcome,
                        missing=record.skipped or ("" if outcome else NOT_ON_RECORD),
                    )
