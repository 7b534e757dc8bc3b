"""The metric parrot-rate keeps the contract of metrics."""

from ke_core.testing.metric import MetricContract


class TestParrotRate(MetricContract):
    name = "parrot-rate"
