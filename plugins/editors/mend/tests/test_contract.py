from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ke_core.testing.editor import EditorContract


class TestMend(EditorContract):
    name = "mend"

    @pytest.fixture(autouse=True)
    def _trained(self, trained: Callable[..., Any], request: pytest.FixtureRequest) -> None:
        trained("llama")
        if "bit_for_bit" in request.node.name:
            trained("llama", dtype="bfloat16")
