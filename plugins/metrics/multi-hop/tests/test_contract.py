"""The multi-hop metric keeps the contract of metrics."""

from ke_core.testing.metric import MetricContract


class TestMultiHop(MetricContract):
    name = "multi-hop"
