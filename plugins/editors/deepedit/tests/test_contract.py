"""DeepEdit keeps the contract of editors, in both profiles."""

from typing import ClassVar

from ke_testing.editor import EditorContract


class TestFixed(EditorContract):
    name = "deepedit"


class TestPaper(EditorContract):
    name = "deepedit"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}
