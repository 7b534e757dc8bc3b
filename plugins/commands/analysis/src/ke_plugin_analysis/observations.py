"""Values of a metric on recorded cases, and the aspects of a case's queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from ke_core.app import Population, observed_values
from ke_core.plugin import (
    CONDITION,
    EFFICACY,
    JUDGE_UNSURE,
    PHASES,
    QUERY_TAG,
    Case,
    CaseRecord,
    Metric,
    MetricSpec,
    Phase,
    Value,
    Verdict,
)


@frozen(kw_only=True)
class Observation:
    """One value of a metric.

    ``own``: the unit set by the metric, or the case. ``value.unit``: the resampling unit of the bootstrap, which is the
    whole batch if its cases shared one edited model. ``unit``: the kind of ``value.unit``, in one word.
    """

    case: str
    own: str
    value: Value
    unit: str


def observations(metric: Metric, name: str, cases: Sequence[CaseRecord]) -> Iterator[Observation]:
    """Yield every value of ``metric``, named ``name``, on ``cases``, with its resampling unit.

    Raises PluginBroken for a value of NaN and for a missing value without a reason.
    """
    population = Population()
    for record in cases:
        population.add(record)
    shares = population.shares()
    for record in cases:
        for own, value in observed_values(metric, name, record):
            batch = shares and value.phase == "after"
            unit = record.batch if batch else own
            yield Observation(
                case=record.case.id, own=own, value=evolve(value, unit=unit), unit="batch" if batch else "unit"
            )


def aspects_of(case: Case, phase: Phase) -> dict[str, tuple[str, ...]]:
    """Return the aspects of each query of that phase. The aspect of a probe's condition is ``condition``."""
    found: dict[str, dict[str, None]] = {}
    for probe in case.probes:
        for query in probe.queries if probe.asked(phase) else ():
            found.setdefault(query.id, {})[probe.aspect] = None
        for query in probe.given if phase == "before" else ():
            found.setdefault(query.id, {})[CONDITION] = None
    return {query: tuple(aspects) for query, aspects in found.items()}


VERDICTS = "verdicts"


class Verdicts:
    """For each query of each aspect: 1 if the answer is right, 0 if not, None if the judge is unsure."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield a value for every judged query of the case and each of its aspects."""
        seen: set[tuple[str, Phase, str]] = set()
        for probe in record.case.probes:
            own = [(probe.aspect, phase, query) for phase in PHASES if probe.asked(phase) for query in probe.queries]
            conditions: list[tuple[str, Phase, str]] = [(CONDITION, "before", query.id) for query in probe.given]
            unit = ",".join(probe.edits) if probe.aspect == EFFICACY else ""
            for what in (*((aspect, phase, query.id) for aspect, phase, query in own), *conditions):
                if what not in seen:
                    seen.add(what)
                    yield from self._of(record, *what, unit=unit)

    @staticmethod
    def _of(record: CaseRecord, aspect: str, phase: Phase, query: str, *, unit: str) -> Iterator[Value]:
        for style in record.styles(phase):
            outcome = record.outcomes.get((phase, style, query))
            if outcome is None:
                continue
            unsure = outcome.judgment.verdict is Verdict.UNSURE
            yield Value(
                aspect=aspect,
                value=None if unsure else float(outcome.judgment.verdict is Verdict.RIGHT),
                phase=phase,
                style=style,
                unit=unit,
                tags={QUERY_TAG: query},
                skipped_because=JUDGE_UNSURE if unsure else "",
            )


VERDICTS_SPEC = MetricSpec(name=VERDICTS, summary="right answers, query by query", build=lambda _config: Verdicts())
