"""A metric: the share of right answers, aspect by aspect. The core counts, averages and draws the intervals."""

from collections.abc import Iterable

from attrs import frozen

from ke_core.plugin import CaseRecord, Metric, MetricSpec, Value, Verdict, hookimpl


@frozen(kw_only=True)
class AccuracyConfig:
    """No options."""


class Accuracy:
    """Pure: reads one case's record, returns observations."""

    def values(self, record: CaseRecord) -> Iterable[Value]:
        """One value for each probe, phase and style; one that cannot be made carries its reason."""
        if record.skipped:
            yield Value(aspect="all", value=None, unit=record.case.id, skipped_because=record.skipped)
            return
        seen = False
        for (phase, style, query_id), outcome in sorted(record.outcomes.items()):
            for probe in record.case.probes:
                if query_id in {query.id for query in probe.queries} and probe.asked(phase):
                    seen = True
                    right = outcome.judgment.verdict is Verdict.RIGHT
                    yield Value(
                        aspect=probe.aspect,
                        value=float(right),
                        phase=phase,
                        style=style,
                        unit=record.case.id,
                        tags=probe.tags,
                    )
        if not seen:
            yield Value(aspect="all", value=None, unit=record.case.id, skipped_because="nothing was answered")


def build(_config: AccuracyConfig) -> Metric:
    """Built when the metric is used."""
    return Accuracy()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer the metric; ``columns`` are the headings of its table, in order."""
    return [
        MetricSpec(
            name="accuracy",
            summary="share of right answers",
            config=AccuracyConfig,
            build=build,
            columns={"efficacy": "edits made", "paraphrase": "asked in other words"},
        )
    ]
