"""GWalk keeps the contract of editors, in all profiles and with the benchmark's aliases."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.examples import MATERIAL
from ke_testing.profile import EditorProfileContract


class TestGreedy(EditorContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"threshold": "calibrated"}


class TestPublished(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"profile": "published", "threshold": "0.4"}


class TestPaper(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"profile": "paper", "threshold": "calibrated"}


class TestOracleAliases(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"aliases": "oracle", "threshold": "0.4"}
    material = MATERIAL


class TestOracleDecomposition(EditorProfileContract):
    name = "gwalk"
    options: ClassVar[dict[str, str]] = {"decomposition": "oracle", "threshold": "0.4"}
    material = MATERIAL
