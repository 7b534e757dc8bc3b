from __future__ import annotations

from ke_weights.testing.weights import WeightEditorContract


class TestFt(WeightEditorContract):
    name = "ft"
    options = {"epochs": "3", "eps": "0.01"}  # noqa: RUF012  a contract's setting
    ranked = False  # a gradient's update is of full rank
