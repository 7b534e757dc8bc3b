"""The metric error-types keeps the contract of metrics."""

from ke_testing.metric import MetricContract


class TestErrorTypes(MetricContract):
    name = "error-types"
