from __future__ import annotations

from ke_weights.testing.locating import MassEditorContract


class TestNse(MassEditorContract):
    name = "nse"
    options = {  # noqa: RUF012  a contract's setting
        "tokens": "1500", "document_length": "64", "steps": "5", "clamp": "0.75", "template_length": "6", "alpha": "0",
        "passes": "1",
    }  # fmt: skip
