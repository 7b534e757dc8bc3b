"""Metrics ``multi-hop`` (MQuAKE's accuracies) and ``retrieval`` (facts found by methods that retrieve)."""

from __future__ import annotations

from ke_core.plugin import MetricSpec, hookimpl


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Register ``multi-hop`` and ``retrieval``."""
    return [
        MetricSpec(
            name="multi-hop",
            summary="edit-wise success, instance-wise and multi-hop accuracy, before and after editing",
            build="ke_plugin_multi_hop.metric:MultiHop",
            cite="Zhong et al. 2023, MQuAKE, section 3.2",
            by=("hops", "edits"),
            columns={
                "edit-wise": "edit-wise",
                "instance-wise": "instance-wise",
                "multi-hop": "multi-hop",
                "still-pre-edit": "pre-edit answer",
                "pre-edit-instance-wise": "pre-edit instance-wise",
                "pre-edit-multi-hop": "pre-edit multi-hop",
            },
            counts={"edit-wise": "edits succeeded", "multi-hop": "multi-hop questions answered correctly"},
            contrary=frozenset({"still-pre-edit"}),
            tables={"cases whose facts the unedited model recalls": {"multi-hop-recalled": "multi-hop"}},
        ),
        MetricSpec(
            name="retrieval",
            summary="edits found by a method that retrieves facts, and whether it used them",
            build="ke_plugin_multi_hop.retrieval:Retrieval",
            cite="Zhong et al. 2023, MQuAKE, appendix (retrieval accuracy, table 14)",
            by=("hops", "edits"),
            columns={
                "edit-retrieval": "edit retrieved",
                "retrieval": "all retrieved",
                "right-if-retrieved": "right if retrieved",
                "hops-answered": "hops answered",
                "used-if-retrieved": "used if retrieved",
            },
        ),
    ]
