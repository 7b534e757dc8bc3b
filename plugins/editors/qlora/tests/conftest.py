"""Tiny models in 4 bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_plugin_hf.testing import Family, tiny_nf4


@pytest.fixture
def nf4(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    def tiny(family: Family = "llama", *, seed: int = 0) -> Any:
        return tiny_nf4(Path(tmp_path_factory.mktemp(family)), family, seed=seed)

    return tiny
