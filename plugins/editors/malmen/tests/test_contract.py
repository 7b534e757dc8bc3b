from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import Session
from ke_weights.testing.weights import WeightEditorContract


class TestMalmen(WeightEditorContract):
    name = "malmen"
    ranked = False  # every answer token has its part

    @pytest.fixture(autouse=True)
    def _kit(self, kit: Any) -> None:
        self.kit = kit

    def on(self, model: Any, root: Path) -> Session[Any]:
        self.kit.leave(self.name, model, root, self.kit.tensors(self.name, model))
        return super().on(model, root)


@pytest.mark.integration  # it differs from malmen only in the training
class TestRLEdit(TestMalmen):
    name = "rledit"
