"""Metric ``cost``: time, forward calls and memory for applying edits, and memory for answering."""

from __future__ import annotations

from ke_core.plugin import MetricSpec, hookimpl


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``cost``."""
    return [
        MetricSpec(
            name="cost",
            summary="seconds and forward calls per edit, and peak memory of editing and answering",
            build="ke_plugin_cost.metric:CostMetric",
            columns={
                "seconds": "seconds per edit",
                "first-seconds": "first batch, seconds per edit",
                "forward-calls": "forward calls per edit",
                "tokens": "tokens per edit",
                "memory": "peak memory",
                "device-memory": "peak GPU memory",
            },
            tables={
                "forward calls of the first batch, and peak memory while questions are answered": {
                    "first-forward-calls": "forward calls per edit",
                    "first-tokens": "tokens per edit",
                    "answer-memory": "memory",
                    "answer-device-memory": "GPU",
                }
            },
            measures={
                **dict.fromkeys(("seconds", "first-seconds"), "s"),
                **dict.fromkeys(("forward-calls", "first-forward-calls"), "calls"),
                **dict.fromkeys(("tokens", "first-tokens"), "tokens"),
                **dict.fromkeys(("memory", "device-memory", "answer-memory", "answer-device-memory"), "MiB"),
            },
            higher_is_better=False,
        )
    ]
