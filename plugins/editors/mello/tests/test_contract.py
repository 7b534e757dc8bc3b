"""MeLLo keeps the contract of editors, in both profiles."""

from typing import ClassVar

from ke_core.testing.editor import EditorContract


class TestFixed(EditorContract):
    name = "mello"


class TestPaper(EditorContract):
    name = "mello"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}
