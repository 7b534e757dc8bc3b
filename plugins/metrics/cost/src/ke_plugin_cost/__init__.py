"""Metric ``cost``: what making an edit takes, in seconds and in memory."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import MetricSpec, ModelMetric, hookimpl


@frozen(kw_only=True)
class CostConfig:
    """No options: the run measures, the metric reads."""


def build(_config: CostConfig) -> ModelMetric:
    """The metric."""
    from ke_plugin_cost.metric import Cost  # noqa: PLC0415  built late

    return Cost()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``cost``."""
    return [
        MetricSpec(
            name="cost",
            summary="seconds per edit, and how far memory rises while a batch of edits is made",
            config=CostConfig,
            build=build,
            columns={
                "seconds": "time per edit",
                "first-seconds": "first batch per edit",
                "memory": "memory above before",
                "device-memory": "GPU above before",
            },
            measures={"seconds": "s", "first-seconds": "s", "memory": "MiB", "device-memory": "MiB"},
            higher_is_better=False,
        )
    ]
