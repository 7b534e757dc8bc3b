from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import Session
from ke_weights.testing.weights import WeightEditorContract


class TestMend(WeightEditorContract):
    name = "mend"
    ranked = False  # every token of an edit has its part

    @pytest.fixture(autouse=True)
    def _kit(self, kit: Any) -> None:
        self.kit = kit

    def on(self, model: Any, root: Path) -> Session[Any]:
        self.kit.leave("mend", model, root, self.kit.tensors("mend", model))
        return super().on(model, root)
