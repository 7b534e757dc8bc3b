"""Contract tests with every choice of facts."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.profile import EditorProfileContract


class TestAll(EditorContract):
    name = "ice"


class TestRetrieved(EditorProfileContract):
    name = "ice"
    options: ClassVar[dict[str, str]] = {"facts": "retrieved", "k": "1"}


class TestOwn(EditorProfileContract):
    name = "ice"
    options: ClassVar[dict[str, str]] = {"facts": "own"}
