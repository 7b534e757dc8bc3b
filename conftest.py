"""For every test of this repository, the plugins' own among them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[1] / "shared/data"


@pytest.fixture(scope="session")
def ke_data_dir() -> Path:
    """``KE_DATA_DIR``, as the test kit has it; without that, a folder of published files beside the checkout."""
    folder = Path(os.environ.get("KE_DATA_DIR") or BESIDE)
    if not folder.is_dir():
        pytest.skip("set KE_DATA_DIR to a folder with the published files (mquake/MQuAKE-CF-3k.json, ...)")
    return folder
