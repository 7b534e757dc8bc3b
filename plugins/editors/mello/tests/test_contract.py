"""MeLLo keeps the contract of editors, in every profile."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.examples import MATERIAL
from ke_testing.profile import EditorProfileContract


class TestFixed(EditorContract):
    name = "mello"


class TestPaper(EditorProfileContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}


class TestRemastered(EditorProfileContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "remastered"}


class TestGiven(EditorProfileContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"decomposition": "oracle"}
    material = MATERIAL
