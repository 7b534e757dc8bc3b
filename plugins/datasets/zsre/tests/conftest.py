"""Records in zsRE's format, made up."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ke_testing.dataset import no_published_files, stored_fixture  # noqa: F401  a fixture

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


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(RECORD)


@pytest.fixture
def records(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Three records: one whose question does not name its subject, one whose alt is a spelling of its answer."""
    unnamed = record | {"src": "Who set up the mills at Ostrel?"}
    return [record, unnamed, record | {"subject": "Tarn Dyes", "src": "Who owns Tarn Dyes?", "alt": "t. crane"}]


stored = stored_fixture("zsre", "zsre_mend_eval.json")
