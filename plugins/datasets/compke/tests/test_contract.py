"""The contract of datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import Dataset
from ke_plugin_compke import CompkeConfig
from ke_plugin_compke.dataset import compke
from ke_testing.dataset import DatasetContract


class TestAtlas(DatasetContract):
    name = "compke-atlas"


class TestAtlasMasked(DatasetContract):
    name = "compke-atlas"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar


class TestOwnFile(DatasetContract):
    name = "compke"

    @pytest.fixture
    def dataset(self, record: dict[str, Any], tmp_path: Path) -> Dataset:
        path = tmp_path / "own.json"
        path.write_text(json.dumps([record]), encoding="utf-8")
        return compke(CompkeConfig(file=str(path)))
