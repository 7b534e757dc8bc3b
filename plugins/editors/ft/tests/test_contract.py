from __future__ import annotations

from ke_core.testing.editor import EditorContract


class TestFt(EditorContract):
    name = "ft"
    options = {"steps": "3", "eps": "0.01"}  # noqa: RUF012  a contract's setting
