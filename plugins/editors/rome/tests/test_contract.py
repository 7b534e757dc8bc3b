from __future__ import annotations

from ke_weights.testing.locating import LocateEditorContract


class TestRome(LocateEditorContract):
    name = "rome"
    options = {"tokens": "1500", "document_length": "64", "steps": "5", "clamp": "0.75"}  # noqa: RUF012  a contract's setting
    contexts = 21
