"""The datasets keep the contract of datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import Dataset
from ke_testing.dataset import DatasetContract, build_dataset


class TestAtlas(DatasetContract):
    name = "ripple-edits-atlas"


class TestMasked(DatasetContract):
    name = "ripple-edits-atlas"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar


class TestSample(DatasetContract):
    name = "ripple-edits"

    @pytest.fixture
    def dataset(self, sample: Path, toy: Any) -> Dataset:
        return build_dataset("ripple-edits", file=str(sample))
