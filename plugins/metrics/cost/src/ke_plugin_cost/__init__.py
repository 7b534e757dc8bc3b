"""Metric ``cost``: what making an edit takes, in seconds, work and memory, and what answering takes in memory."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import MetricSpec, ModelMetric, hookimpl


@frozen(kw_only=True)
class CostConfig:
    """No options: the run measures, the metric reads."""


def build(_config: CostConfig) -> ModelMetric:
    """The metric."""
    from ke_plugin_cost.metric import CostMetric  # noqa: PLC0415  built late

    return CostMetric()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``cost``."""
    return [
        MetricSpec(
            name="cost",
            summary="seconds and model passes per edit, and how far memory rises during an edit and during answers",
            config=CostConfig,
            build=build,
            columns={
                "seconds": "time per edit",
                "first-seconds": "first batch per edit",
                "passes": "model run per edit",
                "tokens": "read per edit",
                "memory": "memory above before",
                "device-memory": "GPU above before",
            },
            tables={
                "what the first batch ran, and memory above before while questions are answered": {
                    "first-passes": "first batch per edit",
                    "first-tokens": "read per edit",
                    "answer-memory": "memory",
                    "answer-device-memory": "GPU",
                }
            },
            measures={
                **dict.fromkeys(("seconds", "first-seconds"), "s"),
                **dict.fromkeys(("passes", "first-passes"), "passes"),
                **dict.fromkeys(("tokens", "first-tokens"), "tokens"),
                **dict.fromkeys(("memory", "device-memory", "answer-memory", "answer-device-memory"), "MiB"),
            },
            higher_is_better=False,
        )
    ]
