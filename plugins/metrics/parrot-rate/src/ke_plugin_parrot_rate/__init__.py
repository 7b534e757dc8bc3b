"""Metric ``parrot-rate``: how often an answer repeats a wrong object that an edit injected."""

from __future__ import annotations

from ke_core.plugin import MetricSpec, hookimpl


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``parrot-rate``."""
    return [
        MetricSpec(
            name="parrot-rate",
            summary="answers that repeat an injected object although it is wrong",
            build="ke_plugin_parrot_rate.metric:ParrotRate",
            cite="after CompKE, section 6 (overfitting: the injected set as the answer to any question)",
            by=("aspect", "hops", "steps", "edits"),
            columns={"parrot-rate": "repeats injected object"},
            higher_is_better=False,
        )
    ]
