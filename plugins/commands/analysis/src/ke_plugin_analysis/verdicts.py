"""A metric that every judged run has: right or wrong, query by query."""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import (
    CONDITION,
    EFFICACY,
    JUDGE_UNSURE,
    PHASES,
    QUERY_TAG,
    CaseRecord,
    MetricSpec,
    Phase,
    Value,
    Verdict,
)

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
