"""MeLLo keeps the contract of editors, in every profile."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.examples import MATERIAL


class TestFixed(EditorContract):
    name = "mello"


class TestPaper(EditorContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}


class TestRemastered(EditorContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "remastered"}


class TestGiven(EditorContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"decomposition": "oracle"}
    material = MATERIAL
