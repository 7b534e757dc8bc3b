"""Metric ``gibberish``: how often what a model writes is no language any more."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl


@frozen(kw_only=True)
class GibberishConfig:
    """No options: the rules are fixed, so that rates can be compared."""


def build(_config: GibberishConfig) -> Metric:
    """The metric."""
    from ke_plugin_gibberish.metric import Gibberish  # noqa: PLC0415  built late

    return Gibberish()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``gibberish``."""
    return [
        MetricSpec(
            name="gibberish",
            summary="answers that are no language: loops, scripts mixed, symbols",
            config=GibberishConfig,
            build=build,
            cite="after CompKE, section 6 (weight editors collapse into repetition and mixed scripts)",
            by=("aspect",),
            columns={"gibberish": "gibberish", "loops": "loops", "scripts": "scripts mixed", "symbols": "symbols"},
            higher_is_better=False,
        )
    ]
