"""The metric omitted-steps keeps the contract of metrics."""

from ke_testing.metric import MetricContract


class TestOmittedSteps(MetricContract):
    name = "omitted-steps"
