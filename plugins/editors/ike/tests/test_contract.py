"""IKE keeps the contract of editors, in both profiles and with either choice of facts."""

from typing import ClassVar

from ke_testing.editor import EditorContract


class TestPaper(EditorContract):
    name = "ike"


class TestEasyEdit(EditorContract):
    name = "ike"
    options: ClassVar[dict[str, str]] = {"profile": "easyedit"}


class TestOwnFacts(EditorContract):
    name = "ike"
    options: ClassVar[dict[str, str]] = {"facts": "own", "k": "3"}
