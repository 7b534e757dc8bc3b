"""Records in CounterFact's format, made up."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_plugin_counterfact.dataset import Counterfact
from ke_testing.dataset import build_dataset, write_json

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
def _no_data(ke_no_data: Path) -> None:
    """Hide the published files on this machine."""


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
    """Write the data file and build the dataset that reads it."""

    def store(content: Any, **options: str) -> Counterfact:
        write_json(tmp_path / "counterfact.json", content)
        return build_dataset("counterfact", data_dir=str(tmp_path), **options)

    return store
