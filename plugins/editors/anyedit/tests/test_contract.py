from __future__ import annotations

from ke_weights.testing.weights import WeightEditorContract


class TestAnyEdit(WeightEditorContract):
    name = "anyedit"
    options = {  # noqa: RUF012  a contract's setting
        "window": "1", "steps": "4", "block_steps": "3", "block_lr": "0.001", "keep": "2", "document_length": "16",
    }  # fmt: skip
    ranked = False  # training changes every parameter of a block


class TestAnyEditAlphaEdit(WeightEditorContract):
    name = "anyedit-alphaedit"
    options = {  # noqa: RUF012  a contract's setting
        "window": "1", "steps": "4", "clamp": "0.75", "tokens": "1500", "document_length": "64",
    }  # fmt: skip
    ranked = False  # an edit has one state per window
    test_ctrl_c_stops_the_edit_and_leaves_the_model_unchanged = None  # half a minute; the other class runs it
