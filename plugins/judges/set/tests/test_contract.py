"""Contract tests with both ways of matching."""

from typing import ClassVar

from ke_testing.judge import JudgeContract


class TestDefault(JudgeContract):
    name = "set"


class TestLenient(JudgeContract):
    name = "set"
    options: ClassVar[dict[str, str]] = {"match": "contains", "extras": "true"}
