"""Metric ``omitted-steps``: how much of a question's reasoning a method that takes it apart leaves out (CompKE)."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl


@frozen(kw_only=True)
class OmittedStepsConfig:
    """No options: how many steps a question takes, the cases say."""


def build(_config: OmittedStepsConfig) -> Metric:
    """The metric."""
    from ke_plugin_omitted_steps.metric import OmittedSteps  # noqa: PLC0415  built late

    return OmittedSteps()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``omitted-steps``."""
    return [
        MetricSpec(
            name="omitted-steps",
            summary="reasoning steps for which a method asks no sub-question",
            config=OmittedStepsConfig,
            build=build,
            cite="CompKE, section 6 (omission of reasoning steps)",
            by=("steps", "structure", "hops"),
            columns={
                "omitted-steps": "steps left out",
                "too-few": "some left out",
                "too-many": "more than needed",
                "sub-questions": "sub-questions",
                "steps": "steps needed",
            },
            measures={"sub-questions": "", "steps": ""},
            higher_is_better=False,
        )
    ]
