"""The contract of datasets."""

from __future__ import annotations

from ke_testing.dataset import DatasetContract


class TestAtlas(DatasetContract):
    name = "atlas"


class TestAtlasMasked(DatasetContract):
    name = "atlas"
    options = {"mask": "true"}  # noqa: RUF012  as in the contract


class TestAtlasByEdits(DatasetContract):
    name = "atlas"
    options = {"view": "edits"}  # noqa: RUF012  as in the contract
