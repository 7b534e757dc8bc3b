"""Records in zsRE's form, with facts of our own making."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_core.app import configure, discover, read_catalog
from ke_plugin_zsre.dataset import Zsre

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
def _nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds data or fetches it unless it says so."""
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))


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
    """Put something where the file is looked for, and build the dataset that reads it."""

    def store(content: Any, **options: str) -> Zsre:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / "zsre_mend_eval.json").write_bytes(data)
        spec = read_catalog(discover()).spec("dataset", "zsre")
        found = spec.build(configure(spec, {"data_dir": str(tmp_path), **options}))
        assert isinstance(found, Zsre)
        return found

    return store
