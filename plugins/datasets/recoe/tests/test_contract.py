"""The datasets keep the contract of datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ke_core.plugin import Dataset
from ke_core.testing.dataset import DatasetContract


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


class TestSorting(DatasetContract):
    """Skipped where the release is not at hand."""

    name = "recoe-sorting"
