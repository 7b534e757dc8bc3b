from __future__ import annotations

from ke_core.testing.editor import EditorContract


class TestLora(EditorContract):
    name = "lora"
    options = {"steps": "2"}  # noqa: RUF012  a contract's setting
