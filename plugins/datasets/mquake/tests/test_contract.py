"""The contract of datasets, for the variants whose file may be available."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ke_core.plugin import Dataset
from ke_plugin_mquake.dataset import Mquake
from ke_testing.dataset import DatasetContract


class TestCF3k(DatasetContract):
    name = "mquake-cf-3k"

    @pytest.fixture
    def dataset(self, cf_3k: Mquake) -> Dataset:
        return cf_3k


class TestConsistent(DatasetContract):
    name = "mquake-2002"

    @pytest.fixture
    def dataset(self, cf_2002: Mquake) -> Dataset:
        return cf_2002


class TestMasked(DatasetContract):
    name = "mquake-cf-3k"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar

    @pytest.fixture
    def dataset(self, masked: Mquake) -> Dataset:
        return masked


class TestAtlas(DatasetContract):
    name = "mquake-atlas"

    @pytest.fixture
    def dataset(self, make: Callable[..., Mquake]) -> Dataset:
        return make("mquake-atlas")
