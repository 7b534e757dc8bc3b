from __future__ import annotations

from ke_weights.testing.weights import WeightEditorContract


class TestUltraEdit(WeightEditorContract):
    name = "ultraedit"
    options = {"modules": "up:1-2,down:2", "eta": "1e-3"}  # noqa: RUF012  a contract's setting
    ranked = False  # every answer token has its part
