"""The metric gibberish keeps the contract of metrics."""

from ke_testing.metric import MetricContract


class TestGibberish(MetricContract):
    name = "gibberish"
