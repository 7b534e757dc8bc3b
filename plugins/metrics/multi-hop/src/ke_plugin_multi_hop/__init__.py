"""Metric ``multi-hop``: MQuAKE's edit-wise, instance-wise and multi-hop accuracy, and what explains them."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Metric, MetricSpec, hookimpl


@frozen(kw_only=True)
class MultiHopConfig:
    """No options: which strings count as right is the judge's business, how questions are put the dataset's."""


def build(_config: MultiHopConfig) -> Metric:
    """The metric."""
    from ke_plugin_multi_hop.metric import MultiHop  # noqa: PLC0415  built late

    return MultiHop()


@hookimpl
def ke_metrics() -> list[MetricSpec]:
    """Offer ``multi-hop``."""
    return [
        MetricSpec(
            name="multi-hop",
            summary="edit-wise success, instance-wise and multi-hop accuracy, before and after editing",
            config=MultiHopConfig,
            build=build,
            cite="Zhong et al. 2023, MQuAKE, section 3.2 and appendix (retrieval accuracy)",
            by=("hops", "edits"),
            columns={
                "edit-wise": "edit-wise",
                "instance-wise": "instance-wise",
                "multi-hop": "multi-hop",
                "multi-hop-stale": "old answer",
            },
            tables={
                "retrieval": {
                    "edit-retrieval": "edit retrieved",
                    "retrieval": "all retrieved",
                    "hops-answered": "hops answered",
                    "edit-weighed": "kept if retrieved",
                }
            },
        )
    ]
