"""The contract of datasets, on a file of cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ke_core.plugin import Dataset
from ke_testing.dataset import DatasetContract


class TestCases(DatasetContract):
    name = "cases"

    @pytest.fixture
    def dataset(self, make: Callable[..., Dataset], stored: Callable[..., Path]) -> Dataset:
        return make(file=str(stored(license="CC0-1.0", source="made up", cases=2)))


class TestMasked(DatasetContract):
    name = "cases"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar

    @pytest.fixture
    def dataset(self, make: Callable[..., Dataset], stored: Callable[..., Path]) -> Dataset:
        return make(file=str(stored()), mask="true")
