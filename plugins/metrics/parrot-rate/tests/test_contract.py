"""The metric parrot-rate keeps the contract of metrics."""

from ke_testing.metric import MetricContract


class TestParrotRate(MetricContract):
    name = "parrot-rate"
