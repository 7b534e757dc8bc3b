"""Contract tests of both profiles."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.profile import EditorProfileContract


class TestDefault(EditorContract):
    name = "deepedit"


class TestPaper(EditorProfileContract):
    name = "deepedit"
    options: ClassVar[dict[str, str]] = {"profile": "paper"}
