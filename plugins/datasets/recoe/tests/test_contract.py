"""The datasets keep the contract of datasets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import Dataset
from ke_plugin_recoe import RecoeConfig
from ke_testing.dataset import DatasetContract


class TestAtlas(DatasetContract):
    name = "recoe-atlas"


class TestMasked(DatasetContract):
    name = "recoe-atlas"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar


class TestOwn(DatasetContract):
    name = "recoe"

    @pytest.fixture
    def dataset(
        self,
        own: Callable[..., Dataset],
        record: dict[str, Any],
        total_record: dict[str, Any],
        order_record: dict[str, Any],
    ) -> Dataset:
        return own(
            {**record, "scheme": "superlative"},
            {**total_record, "scheme": "aggregation"},
            {**order_record, "scheme": "sorting"},
        )


class PublishedContract(DatasetContract):
    """Skipped where the published file is missing."""

    @pytest.fixture
    def config(self, ke_data_dir: Path) -> RecoeConfig:
        folder = ke_data_dir / "recoe"
        return RecoeConfig(data_dir=str(folder) if folder.is_dir() else None)


class TestCounting(PublishedContract):
    name = "recoe-counting"


class TestAggregation(PublishedContract):
    name = "recoe-aggregation"


class TestSorting(PublishedContract):
    name = "recoe-sorting"
