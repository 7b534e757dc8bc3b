"""Metric ``fact-perplexity``: whether editing makes counterfactual sentences the likelier ones (ReCoE)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl

SCHEMES = ("superlative", "comparative", "counting", "sorting", "aggregation", "subtraction")
"""In the order of the paper's tables."""
SUCCESS, AVERAGE = "fact-wise", "average"


@frozen(kw_only=True)
class FactPerplexityConfig:
    """Of which datapoints. The paper does not say; its numbers are fractions of those answered right before."""

    of: Literal["correct", "all"] = field(
        default="correct",
        metadata={"help": "correct = datapoints whose question the unedited model answers right, as in table 5; all"},
    )


def build(config: FactPerplexityConfig) -> Metric:
    """The metric."""
    from ke_plugin_fact_perplexity.metric import FactPerplexity  # noqa: PLC0415  built late

    return FactPerplexity(config=config)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``fact-perplexity``."""
    by_scheme = {f"{SUCCESS}-{scheme}": scheme for scheme in SCHEMES}
    return [
        MetricSpec(
            name="fact-perplexity",
            summary="perplexity of facts and of counterfactuals, and how often editing turns them round",
            config=FactPerplexityConfig,
            build=build,
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), section 5.1 and table 5",
            by=("scheme",),
            columns={
                "perplexity-facts": "PPL(F)",
                "perplexity-counterfactuals": "PPL(CF)",
                "difference": "PPL(CF) - PPL(F)",
                SUCCESS: "fact-wise success",
            },
            tables={
                "fact-wise success by scheme, and the plain mean over schemes": {
                    **by_scheme,
                    f"{SUCCESS}-{AVERAGE}": AVERAGE,
                }
            },
            measures={"perplexity-facts": "", "perplexity-counterfactuals": "", "difference": ""},
            contrary=frozenset({"perplexity-counterfactuals", "difference"}),
            averages={f"{SUCCESS}-{AVERAGE}": tuple(by_scheme)},
        )
    ]
