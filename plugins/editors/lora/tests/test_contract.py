from __future__ import annotations

from ke_weights.testing.weights import WeightEditorContract


class TestLora(WeightEditorContract):
    name = "lora"
    options = {"epochs": "2"}  # noqa: RUF012  a contract's setting
    ranked = False  # the adapter's rank is an option
