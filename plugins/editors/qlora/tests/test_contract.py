from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ke_plugin_hf.testing import Family
from ke_weights.testing.opening import ClozeEditorContract


class TestQlora(ClozeEditorContract):
    name = "qlora"
    options = {"epochs": "2"}  # noqa: RUF012  a contract's setting

    @pytest.fixture(autouse=True)
    def _loader(self, nf4: Callable[..., Any]) -> None:
        self.load = nf4

    def tiny(self, family: Family = "llama", *, dtype: str = "nf4", seed: int = 0) -> Any:
        del dtype  # every one of the contract's is edited in 4 bits
        return self.load(family, seed=seed)
