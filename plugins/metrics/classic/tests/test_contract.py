"""The classic metric keeps the contract of metrics."""

from ke_testing.metric import MetricContract


class TestClassic(MetricContract):
    name = "classic"


class TestSum(MetricContract):
    name = "classic"
    options = {"compare": "sum"}  # noqa: RUF012  the contract declares it as a ClassVar
