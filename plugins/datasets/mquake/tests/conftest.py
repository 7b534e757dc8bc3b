"""The published file, if it is on this machine, and a small made-up record."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import Case
from ke_plugin_mquake.dataset import Mquake
from ke_testing.dataset import build_dataset, no_published_files, stored_fixture  # noqa: F401  a fixture

FILE = "mquake/MQuAKE-CF-3k.json"


@pytest.fixture(scope="session")
def published(ke_data_dir: Path) -> Path:
    """The CF-3k file."""
    if not (ke_data_dir / FILE).is_file():
        pytest.skip(f"no {FILE} in {ke_data_dir}")
    return ke_data_dir / FILE


@pytest.fixture(scope="session")
def make() -> Callable[..., Mquake]:
    """Build a dataset by its name, as the command line does."""
    return build_dataset


@pytest.fixture(scope="session")
def cf_3k(published: Path) -> Mquake:
    return build_dataset("mquake-cf-3k", data_dir=str(published.parent))


@pytest.fixture(scope="session")
def masked(published: Path) -> Mquake:
    return build_dataset("mquake-cf-3k", data_dir=str(published.parent), mask="true")


@pytest.fixture(scope="session")
def cf_2002(published: Path) -> Mquake:
    return build_dataset("mquake-2002", data_dir=str(published.parent))


@pytest.fixture(scope="session")
def cases(cf_3k: Mquake) -> tuple[Case, ...]:
    return tuple(cf_3k.cases())


@pytest.fixture(scope="session")
def raw(published: Path) -> Any:
    return json.loads(published.read_text())


@pytest.fixture
def record() -> dict[str, Any]:
    """A made-up two-hop case with one edit, in the published format: Mira Toll moves from Aland to Boland."""
    return copy.deepcopy(RECORD)


stored = stored_fixture("mquake-cf-3k", "MQuAKE-CF-3k.json")


def hop(subject: str, answer: str, question: str, cloze: str, *aliases: str) -> dict[str, Any]:
    return {
        "question": question.replace("{}", subject),
        "cloze": cloze.replace("{}", subject),
        "answer": answer,
        "answer_alias": list(aliases),
    }


CITIZEN = ("What is the country of citizenship of {}?", "{} is a citizen of")
CAPITAL = ("What is the capital of {}?", "The capital of {} is")
RECORD = {
    "case_id": 7,
    "requested_rewrite": [
        {
            "prompt": "{} is a citizen of",
            "relation_id": "P27",
            "target_new": {"str": "Boland", "id": "Q3"},
            "target_true": {"str": "Aland", "id": "Q2"},
            "subject": "Mira Toll",
            "question": "What is the country of citizenship of Mira Toll?",
        }
    ],
    "questions": ["Which city is the capital of Mira Toll's country?", "Mira Toll's country has which capital?"],
    "answer": "Alaville",
    "answer_alias": [],
    "new_answer": "Boville",
    "new_answer_alias": ["Bo City"],
    "single_hops": [hop("Mira Toll", "Aland", *CITIZEN, "AL"), hop("Aland", "Alaville", *CAPITAL)],
    "new_single_hops": [hop("Mira Toll", "Boland", *CITIZEN, "BO"), hop("Boland", "Boville", *CAPITAL, "Bo City")],
    "orig": {
        "triples": [["Q1", "P27", "Q2"], ["Q2", "P36", "Q4"]],
        "triples_labeled": [["Mira Toll", "country of citizenship", "Aland"], ["Aland", "capital", "Alaville"]],
        "new_triples": [["Q1", "P27", "Q3"], ["Q3", "P36", "Q5"]],
        "new_triples_labeled": [["Mira Toll", "country of citizenship", "Boland"], ["Boland", "capital", "Boville"]],
        "edit_triples": [["Q1", "P27", "Q3"]],
    },
}
