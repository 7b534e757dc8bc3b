from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import LanguageModel, Session
from ke_testing.editor import EditorContract


class TestSerac(EditorContract):
    name = "serac"

    @pytest.fixture(autouse=True)
    def _kit(self, kit: Any) -> None:
        self.kit = kit

    @pytest.fixture
    def config(self, kit: Any) -> Any:
        return kit.config

    def on(self, model: LanguageModel, root: Path) -> Session[Any]:
        self.kit.leave(root)
        return super().on(model, root)
