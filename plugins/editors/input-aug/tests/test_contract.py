"""Input augmentation keeps the contract of editors, in both modes."""

from typing import ClassVar

from ke_testing.editor import EditorContract


class TestDirect(EditorContract):
    name = "input-aug"


class TestChainOfThought(EditorContract):
    name = "input-aug"
    options: ClassVar[dict[str, str]] = {"mode": "cot", "facts": "all"}


class TestRetrieved(EditorContract):
    name = "input-aug"
    options: ClassVar[dict[str, str]] = {"facts": "retrieved", "k": "2"}
