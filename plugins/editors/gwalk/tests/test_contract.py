"""Contract tests of every profile, and with the benchmark's aliases and sub-questions."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.examples import MATERIAL
from ke_testing.profile import EditorProfileContract


class TestDefault(EditorContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"threshold": "calibrated"}


class TestPaper(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"profile": "paper", "threshold": "0.4"}


class TestPrinted(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"profile": "algorithm-1", "threshold": "calibrated"}


class TestOracleAliases(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"aliases": "oracle", "threshold": "0.4"}
    material = MATERIAL


class TestOracleDecomposition(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"decomposition": "oracle", "threshold": "0.4"}
    material = MATERIAL
