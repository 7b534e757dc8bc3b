"""Metric ``fact-recall``: of the facts that a model thinks of, those that the edits speak of, and agree with."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl

RELATED, CONSISTENCY, OF_RELATED = "relatedness", "consistency", "consistency-of-related"
PRE_EDIT = "pre-edit-"


@frozen(kw_only=True)
class FactRecallConfig:
    """Nothing to choose: the judge has chosen."""


def build(config: FactRecallConfig) -> Metric:
    """The metric."""
    from ke_plugin_fact_recall.metric import FactRecall  # noqa: PLC0415  built late

    return FactRecall(config=config)


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``fact-recall``."""
    return [
        MetricSpec(
            name="fact-recall",
            summary="of the facts in chains of thought, the share that the case speaks of, and that agrees with it",
            config=FactRecallConfig,
            build=build,
            cite="Hua et al. 2024, Propagation and Pitfalls (ReCoE), section 5.2",
            by=("scheme",),
            columns={
                RELATED: "related",
                CONSISTENCY: "consistent",
                OF_RELATED: "consistent of related",
                f"{PRE_EDIT}{RELATED}": "pre-edit related",
                f"{PRE_EDIT}{CONSISTENCY}": "pre-edit consistent",
                f"{PRE_EDIT}{OF_RELATED}": "pre-edit consistent of related",
            },
        )
    ]
