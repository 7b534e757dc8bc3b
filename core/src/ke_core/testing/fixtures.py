"""pytest fixtures for plugin authors, loaded by pytest itself wherever ke-core is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def ke_data_dir(request: pytest.FixtureRequest) -> Path:
    """The folder with published data files: ``KE_DATA_DIR``, else ``../shared/data`` beside the checkout."""
    named = os.environ.get("KE_DATA_DIR")
    candidates = [Path(named)] if named else [folder / "shared/data" for folder in request.path.parents]
    for folder in candidates:
        if folder.is_dir():
            return folder
    pytest.skip("no data folder: set KE_DATA_DIR to a folder with the published files (mquake/MQuAKE-CF-3k.json, ...)")


@pytest.fixture
def ke_cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("KE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread for torch: tiny models are faster so, and sums come in one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
