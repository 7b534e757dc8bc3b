"""Records in CounterFact's form, with facts of our own making."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_core.app import configure, discover, read_catalog
from ke_plugin_counterfact.dataset import Counterfact

RECORD = {
    "case_id": 0,
    "pararel_idx": 31,
    "requested_rewrite": {
        "prompt": "{} has its seat in",
        "relation_id": "P159",
        "target_new": {"str": "Zarl", "id": "Q9002"},
        "target_true": {"str": "Harwick", "id": "Q9001"},
        "subject": "Ostrel Mills",
    },
    "paraphrase_prompts": ["It rained. Ostrel Mills is based in", "Ostrel Mills is run from "],
    "neighborhood_prompts": ["Bexley Looms has its seat in", "The seat of Tarn Dyes is"],
    "attribute_prompts": ["Polder Glass has its seat in"],
    "generation_prompts": ["Ostrel Mills's neighbors are"],
}


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds data or fetches it unless it says so."""
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(RECORD)


@pytest.fixture
def records(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Two cases about two subjects."""
    other = json.loads(json.dumps(record).replace("Ostrel Mills", "Fenwick Rope"))
    return [record, other | {"case_id": 1}]


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Counterfact]:
    """Put something where the file is looked for, and build the dataset that reads it."""

    def store(content: Any, **options: str) -> Counterfact:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / "counterfact.json").write_bytes(data)
        spec = read_catalog(discover()).spec("dataset", "counterfact")
        found = spec.build(configure(spec, {"data_dir": str(tmp_path), **options}))
        assert isinstance(found, Counterfact)
        return found

    return store
