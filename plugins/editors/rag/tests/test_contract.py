"""Contract tests of every gate."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.profile import EditorProfileContract


class TestRag(EditorContract):
    name = "rag"


class TestThreshold(EditorProfileContract):
    name = "rag"
    options: ClassVar[dict[str, str]] = {"gate": "threshold", "threshold": "0.2", "k": "2"}


class TestScr(EditorContract):
    name = "scr"
