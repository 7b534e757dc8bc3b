"""Records in zsRE's format, made up."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_plugin_zsre.dataset import Zsre
from ke_testing.dataset import build_dataset, write_json

RECORD = {
    "subject": "Ostrel Mills",
    "src": "Who set up Ostrel Mills?",
    "pred": "Jon Arb",
    "rephrase": "By whom was Ostrel Mills set up?",
    "alt": "Vera Lisk",
    "answers": ["Tobin Crane", "T. Crane"],
    "loc": "nq question: how many locks has the tarn canal",
    "loc_ans": "eleven",
    "cond": "Jon Arb >> Vera Lisk || Who set up Ostrel Mills?",
}


@pytest.fixture(autouse=True)
def _no_data(ke_no_data: Path) -> None:
    """Hide the published files on this machine."""


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(RECORD)


@pytest.fixture
def records(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Three records: one whose question does not name its subject, one whose alt is a spelling of its answer."""
    unnamed = record | {"src": "Who set up the mills at Ostrel?"}
    return [record, unnamed, record | {"subject": "Tarn Dyes", "src": "Who owns Tarn Dyes?", "alt": "t. crane"}]


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Zsre]:
    """Write the data file and build the dataset that reads it."""

    def store(content: Any, **options: str) -> Zsre:
        write_json(tmp_path / "zsre_mend_eval.json", content)
        return build_dataset("zsre", data_dir=str(tmp_path), **options)

    return store
