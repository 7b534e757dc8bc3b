"""Metric ``coherence``: how often the thoughts before an answer support it (ReCoE)."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl

SCHEMES = ("superlative", "comparative", "counting", "sorting", "aggregation", "subtraction")
"""In the order of the paper's tables."""
COHERENCE, AVERAGE = "coherence", "average"


@frozen(kw_only=True)
class CoherenceConfig:
    """Nothing to choose: the judge has chosen."""


def build(config: CoherenceConfig) -> Metric:
    """The metric."""
    from ke_plugin_coherence.metric import Coherence  # noqa: PLC0415  built late

    return Coherence(config=config)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``coherence``."""
    schemes = {f"{COHERENCE}-{scheme}": scheme for scheme in SCHEMES}
    return [
        MetricSpec(
            name="coherence",
            summary="of the chains of thought, the share that supports the answer given after it",
            config=CoherenceConfig,
            build=build,
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), section 5.3",
            by=("scheme",),
            columns={COHERENCE: "coherence"},
            tables={
                "coherence by scheme, and the plain mean over schemes": {**schemes, f"{COHERENCE}-{AVERAGE}": AVERAGE}
            },
            averages={f"{COHERENCE}-{AVERAGE}": tuple(schemes)},
        )
    ]
