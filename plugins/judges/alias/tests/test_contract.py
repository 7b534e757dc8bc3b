"""Contract tests of ``alias`` and ``containment``."""

from typing import ClassVar

from ke_testing.judge import JudgeContract


class TestDefault(JudgeContract):
    name = "alias"


class TestLenient(JudgeContract):
    name = "alias"
    options: ClassVar[dict[str, str]] = {"match": "contains", "normalize": "text"}


class TestContainment(JudgeContract):
    name = "containment"


class TestSubstring(JudgeContract):
    name = "containment"
    options: ClassVar[dict[str, str]] = {"rule": "substring"}
