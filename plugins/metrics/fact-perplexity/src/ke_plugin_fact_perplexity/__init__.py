"""Metric ``fact-perplexity``: whether editing makes counterfactual sentences more probable (ReCoE)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import MetricSpec, hookimpl, option

SCHEMES = ("superlative", "comparative", "counting", "sorting", "aggregation", "subtraction")
"""Schemes in the order of the paper's tables."""
SUCCESS, AVERAGE = "fact-wise", "average"


@frozen(kw_only=True)
class FactPerplexityConfig:
    """Options: which cases count. The paper's numbers are fractions of those answered correctly before editing."""

    cases: Literal["correct", "all"] = option(
        "correct = cases whose question the unedited model answers correctly, as in table 5; all", "correct"
    )


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``fact-perplexity``."""
    by_scheme = {f"{SUCCESS}-{scheme}": scheme for scheme in SCHEMES}
    return [
        MetricSpec(
            name="fact-perplexity",
            summary="perplexity of facts and counterfactuals, and how often editing reverses their order",
            config=FactPerplexityConfig,
            build="ke_plugin_fact_perplexity.metric:FactPerplexity",
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), section 5.1 and table 5",
            by=("scheme",),
            columns={
                "perplexity-facts": "PPL(F)",
                "perplexity-counterfactuals": "PPL(CF)",
                "difference": "PPL(CF) - PPL(F)",
                SUCCESS: "fact-wise success",
            },
            tables={
                "fact-wise success by scheme, and the unweighted mean over schemes": {
                    **by_scheme,
                    f"{SUCCESS}-{AVERAGE}": AVERAGE,
                }
            },
            measures={"perplexity-facts": "", "perplexity-counterfactuals": "", "difference": ""},
            contrary=frozenset({"perplexity-counterfactuals", "difference"}),
            averages={f"{SUCCESS}-{AVERAGE}": tuple(by_scheme)},
        )
    ]
