"""The set-answers metric keeps the contract of metrics."""

from typing import ClassVar

from ke_testing.metric import MetricContract


class TestSetAnswers(MetricContract):
    name = "set-answers"


class TestEmptyCountsAsOne(MetricContract):
    name = "set-answers"
    options: ClassVar[dict[str, str]] = {"empty": "one"}
