"""Contract tests of every profile, and with sub-questions from the dataset."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.examples import MATERIAL
from ke_testing.profile import EditorProfileContract


class TestDefault(EditorContract):
    name = "mello"


class TestPaper(EditorProfileContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}


class TestRemastered(EditorProfileContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "remastered"}


class TestOracleDecomposition(EditorProfileContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"decomposition": "oracle"}
    material = MATERIAL
