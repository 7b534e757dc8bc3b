"""The parrot keeps the contract of editors."""

from ke_testing.editor import EditorContract


class TestParrot(EditorContract):
    name = "parrot"
