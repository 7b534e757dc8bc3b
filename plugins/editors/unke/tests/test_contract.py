from __future__ import annotations

from ke_weights.testing.weights import WeightEditorContract


class TestUnke(WeightEditorContract):
    name = "unke"
    options = {  # noqa: RUF012  a contract's setting
        "steps": "4", "block_steps": "3", "block_lr": "0.001", "keep": "2", "document_length": "16",
    }  # fmt: skip
    ranked = False  # training changes every parameter of a block
