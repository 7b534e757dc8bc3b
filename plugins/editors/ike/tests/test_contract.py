"""Contract tests of both profiles and both choices of facts."""

from typing import ClassVar

from ke_testing.editor import EditorContract
from ke_testing.profile import EditorProfileContract


class TestPaper(EditorContract):
    name = "ike"


class TestEasyEdit(EditorProfileContract):
    name = "ike"
    options: ClassVar[dict[str, str]] = {"profile": "easyedit"}


class TestOwnFacts(EditorProfileContract):
    name = "ike"
    options: ClassVar[dict[str, str]] = {"facts": "own", "k": "3"}
