"""Files of cases: a minimal one, and the exported toy dataset."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks import CaseHeader, write_cases
from ke_core.app import configure, installed_catalog
from ke_core.plugin import Dataset
from ke_testing.dataset import no_published_files  # noqa: F401  a fixture
from ke_testing.toy import Toy


@pytest.fixture
def spec() -> Any:
    return installed_catalog().spec("dataset", "cases")


@pytest.fixture
def make(spec: Any) -> Callable[..., Dataset]:
    """Build the dataset as the command line does."""
    return lambda **options: spec.build(configure(spec, options))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """Write the toy dataset with a given header."""

    def store(name: str = "toy.jsonl", **header: Any) -> Path:
        path = tmp_path / name
        write_cases(path, CaseHeader(name="toy", **header), Toy().cases())
        return path

    return store


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """A minimal file, written manually."""
    query = {"id": "q", "texts": ["Who keeps the light at Skarn?"], "gold": {"entities": [{"label": "Ina Voll"}]}}
    probe = {"id": "p", "aspect": "efficacy", "queries": [query]}
    lines = [{"format": "ke-cases", "name": "keepers"}, {"id": "1", "probes": [probe]}]
    (tmp_path / "keepers.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path / "keepers.jsonl"
