"""Contract tests with the trained detector, the nearest neighbor, and the paper's loop."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from ke_testing.editor import EditorContract
from ke_testing.profile import EditorProfileContract


class TestNearest(EditorContract):
    name = "pokemqa"
    options: ClassVar[dict[str, str]] = {"detector": "nearest"}


class TestTrained(EditorProfileContract):
    name = "pokemqa"

    @pytest.fixture(autouse=True)
    def _detector(self, kit, tmp_path: Path) -> None:
        training = kit.begin(tmp_path)
        training.advance()
        kit.leave(tmp_path, training.tensors())


class TestPaperLoop(EditorProfileContract):
    name = "pokemqa"
    options: ClassVar[dict[str, str]] = {"detector": "nearest", "loop": "paper"}
