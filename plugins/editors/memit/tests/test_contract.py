from __future__ import annotations

from ke_core.testing.editor import EditorContract


class TestMemit(EditorContract):
    name = "memit"
    options = {"tokens": "1500", "document_length": "64", "steps": "5", "template_length": "6"}  # noqa: RUF012  a contract's setting
