from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ke_core.testing.editor import EditorContract


class TestQlora(EditorContract):
    name = "qlora"
    options = {"steps": "2"}  # noqa: RUF012  a contract's setting

    @pytest.fixture(autouse=True)
    def _loader(self, nf4: Callable[..., Any]) -> None:
        self.load = nf4

    def model(self, dtype: str = "nf4") -> Any:  # every one of the contract's types is edited in 4 bits
        return self.load()
