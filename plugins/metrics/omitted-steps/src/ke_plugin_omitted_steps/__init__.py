"""Metric ``omitted-steps``: how many of a question's reasoning steps a method leaves out (CompKE)."""

from __future__ import annotations

from ke_core.plugin import MetricSpec, hookimpl


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``omitted-steps``."""
    return [
        MetricSpec(
            name="omitted-steps",
            summary="reasoning steps without a sub-question of the method",
            build="ke_plugin_omitted_steps.metric:OmittedSteps",
            cite="CompKE, section 6 (omission of reasoning steps)",
            by=("steps", "structure", "hops"),
            columns={
                "omitted-steps": "omitted steps",
                "too-few": "too few steps",
                "too-many": "too many steps",
                "sub-questions": "sub-questions",
                "steps": "required steps",
            },
            measures={"sub-questions": "", "steps": ""},
            higher_is_better=False,
        )
    ]
