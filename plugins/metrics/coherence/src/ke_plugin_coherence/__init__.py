"""Metric ``coherence``: how often a chain of thought supports its answer (ReCoE)."""

from __future__ import annotations

from ke_core.plugin import MetricSpec, hookimpl

SCHEMES = ("superlative", "comparative", "counting", "sorting", "aggregation", "subtraction")
"""Schemes in the order of the paper's tables."""
COHERENCE, AVERAGE = "coherence", "average"


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``coherence``."""
    schemes = {f"{COHERENCE}-{scheme}": scheme for scheme in SCHEMES}
    return [
        MetricSpec(
            name="coherence",
            summary="percentage of chains of thought that support the answer that follows them",
            build="ke_plugin_coherence.metric:Coherence",
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), section 5.3",
            by=("scheme",),
            columns={COHERENCE: "coherence"},
            tables={
                "coherence by scheme, and the unweighted mean over schemes": {
                    **schemes,
                    f"{COHERENCE}-{AVERAGE}": AVERAGE,
                }
            },
            averages={f"{COHERENCE}-{AVERAGE}": tuple(schemes)},
        )
    ]
