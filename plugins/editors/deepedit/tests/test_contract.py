"""DeepEdit keeps the contract of editors, in both profiles."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.profile import EditorProfileContract


class TestFixed(EditorContract):
    name = "deepedit"


class TestPaper(EditorProfileContract):
    name = "deepedit"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}
