"""Tiny models in 4 bits: saved once, loaded as any model is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_core.models.hf.loading import load
from ke_core.specs import ModelRequest
from ke_core.testing.tiny import Family, tiny_model


@pytest.fixture(scope="session")
def nf4(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    folders: dict[Family, Path] = {}

    def tiny(family: Family = "llama", dtype: str = "nf4") -> Any:
        if family not in folders:
            folder = folders[family] = tmp_path_factory.mktemp(family)
            made = tiny_model(family)
            made.module.save_pretrained(folder)
            made.tokenizer.save_pretrained(folder)
        return load(ModelRequest(id="tiny", dtype=dtype, device="cpu"), str(folders[family]))

    return tiny
