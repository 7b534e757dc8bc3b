"""Records in CounterFact's format, made up."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ke_testing.dataset import no_published_files, stored_fixture  # noqa: F401  a fixture

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


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(RECORD)


@pytest.fixture
def records(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Two cases about two subjects."""
    other = json.loads(json.dumps(record).replace("Ostrel Mills", "Fenwick Rope"))
    return [record, other | {"case_id": 1}]


stored = stored_fixture("counterfact", "counterfact.json")
