"""A metric: the accuracy per aspect. The core counts, averages and computes the intervals."""

from collections.abc import Iterable

from attrs import frozen

from ke_core.plugin import CaseRecord, Metric, MetricSpec, Value, Verdict, hookimpl


@frozen(kw_only=True)
class AccuracyConfig:
    """No options."""


class Accuracy:
    """A pure function from the record of a case to observations."""

    def values(self, record: CaseRecord) -> Iterable[Value]:
        """Yield one value per probe, phase and style. A missing value has a reason."""
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
            yield Value(aspect="all", value=None, unit=record.case.id, skipped_because="no question was answered")


def build(_config: AccuracyConfig) -> Metric:
    """Build the metric when a command uses it."""
    return Accuracy()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register the metric. ``columns`` are the headings of its table, in order."""
    return [
        MetricSpec(
            name="accuracy",
            summary="percentage of correct answers",
            config=AccuracyConfig,
            build=build,
            columns={"efficacy": "efficacy", "paraphrase": "paraphrase"},
        )
    ]
