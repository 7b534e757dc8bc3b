"""Metric ``gibberish``: how often the output is no longer language."""

from __future__ import annotations

from ke_core.plugin import MetricSpec, hookimpl


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``gibberish``."""
    return [
        MetricSpec(
            name="gibberish",
            summary="outputs that are not language: loops, mixed scripts, symbols",
            build="ke_plugin_gibberish.metric:Gibberish",
            cite="after CompKE, section 6 (weight editors collapse into repetition and mixed scripts)",
            by=("aspect",),
            columns={"gibberish": "gibberish", "loops": "loops", "scripts": "mixed scripts", "symbols": "symbols"},
            higher_is_better=False,
        )
    ]
