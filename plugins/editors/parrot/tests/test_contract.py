"""The parrot keeps the contract of editors."""

from ke_core.testing.editor import EditorContract


class TestParrot(EditorContract):
    name = "parrot"
