"""Metric ``fact-recall``: how many facts in a chain of thought relate to the edits, and agree with them."""

from __future__ import annotations

from ke_core.plugin import MetricSpec, hookimpl

RELATED, CONSISTENCY, OF_RELATED = "relatedness", "consistency", "consistency-of-related"
PRE_EDIT = "pre-edit-"


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``fact-recall``."""
    return [
        MetricSpec(
            name="fact-recall",
            summary="percentage of facts in chains of thought that the case's facts are about, and that agree "
            "with them",
            build="ke_plugin_fact_recall.metric:FactRecall",
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
