"""Contract tests of both modes, and with retrieval."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.profile import EditorProfileContract


class TestDirect(EditorContract):
    name = "input-aug"


class TestChainOfThought(EditorProfileContract):
    name = "input-aug"
    options: ClassVar[dict[str, str]] = {"mode": "cot", "facts": "all"}


class TestRetrieved(EditorProfileContract):
    name = "input-aug"
    options: ClassVar[dict[str, str]] = {"facts": "retrieved", "k": "2"}
