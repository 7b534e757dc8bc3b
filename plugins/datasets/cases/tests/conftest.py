"""Files of cases: one written manually, and the toy dataset exported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks import CaseHeader, write_cases
from ke_core.app import configure, discover, read_catalog
from ke_core.plugin import Dataset
from ke_testing.toy import Toy


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def spec() -> Any:
    return read_catalog(discover()).spec("dataset", "cases")


@pytest.fixture
def make(spec: Any) -> Callable[..., Dataset]:
    """The dataset as the command line builds it."""
    return lambda **options: spec.build(configure(spec, options))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """The toy dataset as a file, with a header of one's own."""

    def store(name: str = "toy.jsonl", **header: Any) -> Path:
        path = tmp_path / name
        write_cases(path, CaseHeader(name="toy", **header), Toy().cases())
        return path

    return store


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """The shortest header there is."""
    query = {"id": "q", "texts": ["Who keeps the light at Skarn?"], "gold": {"entities": [{"label": "Ina Voll"}]}}
    probe = {"id": "p", "aspect": "efficacy", "queries": [query]}
    lines = [{"format": "ke-cases", "name": "keepers"}, {"id": "1", "probes": [probe]}]
    (tmp_path / "keepers.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path / "keepers.jsonl"
