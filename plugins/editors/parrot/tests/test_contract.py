"""Contract tests."""

from ke_testing.editor import EditorContract


class TestParrot(EditorContract):
    name = "parrot"
