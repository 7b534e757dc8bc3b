"""ICE keeps the contract of editors, however its facts are chosen."""

from typing import ClassVar

from ke_testing.editor import EditorContract


class TestAll(EditorContract):
    name = "ice"


class TestRetrieved(EditorContract):
    name = "ice"
    options: ClassVar[dict[str, str]] = {"facts": "retrieved", "k": "1"}


class TestOwn(EditorContract):
    name = "ice"
    options: ClassVar[dict[str, str]] = {"facts": "own"}
