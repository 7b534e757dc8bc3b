"""Metric ``parrot-rate``: how often an answer repeats an object that an edit injected, where it is wrong."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl


@frozen(kw_only=True)
class ParrotRateConfig:
    """No options: what the edits inject, and what is right, the cases say."""


def build(_config: ParrotRateConfig) -> Metric:
    """The metric."""
    from ke_plugin_parrot_rate.metric import ParrotRate  # noqa: PLC0415  built late

    return ParrotRate()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``parrot-rate``."""
    return [
        MetricSpec(
            name="parrot-rate",
            summary="answers that repeat an injected object where it is wrong",
            config=ParrotRateConfig,
            build=build,
            cite="after CompKE, section 6 (overfitting: the injected set is answered whatever is asked)",
            by=("aspect", "hops", "steps", "edits"),
            columns={"parrot-rate": "repeats what was injected"},
            higher_is_better=False,
        )
    ]
