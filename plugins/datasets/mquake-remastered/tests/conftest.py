"""Made-up records in the published layouts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_plugin_mquake_remastered.dataset import Remastered
from ke_testing.dataset import build_dataset, no_published_files, write_json  # noqa: F401  a fixture

CITIZEN = ("What is the country of citizenship of {}?", "{} is a citizen of")
CAPITAL = ("What is the capital of {}?", "The capital of {} is")
SIZES = {"CF3k": (1, 100, 1000, 3000), "T": (1, 100, 500, 1864), "CF6334": (100, 1000, 3000, 6334)}


def hop(subject: str, answer: str, question: str, cloze: str, *aliases: str) -> dict[str, Any]:
    texts = {"question": question.replace("{}", subject), "cloze": cloze.replace("{}", subject)}
    return {**texts, "answer": answer, "answer_alias": list(aliases)}


def make(number: int, labels: list[str] | None, variant: str = "CF3k") -> dict[str, Any]:
    """Return a case: person N moves from Aland to Boland, so the capital of their country changes."""
    name = f"Person {number}"
    return {
        "case_id": number,
        "requested_rewrite": [
            {
                "prompt": "{} is a citizen of",
                "relation_id": "P27",
                "subject": name,
                "target_new_str": "Boland",
                "target_true_str": "Aland",
            }
        ],
        "questions": [f"Which city is the capital of {name}'s country?", f"{name}'s country has which capital?"],
        "answer": "Alaville",
        "answer_alias": [],
        "new_answer": "Boville",
        "new_answer_alias": ["Bo City"],
        "single_hops": [hop(name, "Aland", *CITIZEN, "AL"), hop("Aland", "Alaville", *CAPITAL)],
        "new_single_hops": [hop(name, "Boland", *CITIZEN, "BO"), hop("Boland", "Boville", *CAPITAL, "Bo City")],
        "orig_triples": [[f"Q1{number}", "P27", "Q2"], ["Q2", "P36", "Q4"]],
        "orig_triples_labeled": [[name, "country of citizenship", "Aland"], ["Aland", "capital", "Alaville"]],
        "new_triples": [[f"Q1{number}", "P27", "Q3"], ["Q3", "P36", "Q5"]],
        "new_triples_labeled": [[name, "country of citizenship", "Boland"], ["Boland", "capital", "Boville"]],
        "split": {str(k): labels for k in SIZES[variant]},
    }


def move(number: int, labels: list[str]) -> dict[str, Any]:
    """Return a case that also changes the capital of Boland, which contaminates ``make``."""
    case = make(number, labels)
    case["requested_rewrite"].append(
        {
            "prompt": "The capital of {} is",
            "relation_id": "P36",
            "subject": "Boland",
            "target_new_str": "Newtown",
            "target_true_str": "Boville",
        }
    )
    case["new_answer"], case["new_answer_alias"] = "Newtown", []
    case["new_single_hops"][1] |= {"answer": "Newtown", "answer_alias": []}
    case["new_triples"][1][2], case["new_triples_labeled"][1][2] = "Q6", "Newtown"
    return case


def nest(flat: dict[str, Any], split: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the record in the layout of the authors' repository. Only its file of CF-6334 has a split."""
    chains = {name.removeprefix("orig_"): flat[name] for name in flat if "triples" in name}
    edited = [(rewrite, _hop(rewrite, flat)) for rewrite in flat["requested_rewrite"]]
    return {
        **{name: value for name, value in flat.items() if "triples" not in name and name != "split"},
        "requested_rewrite": [
            {
                "prompt": rewrite["prompt"],
                "relation_id": rewrite["relation_id"],
                "subject": rewrite["subject"],
                "question": flat["new_single_hops"][at]["question"],
                "target_new": {"str": rewrite["target_new_str"], "id": flat["new_triples"][at][2]},
                "target_true": {"str": rewrite["target_true_str"], "id": flat["orig_triples"][at][2]},
            }
            for rewrite, at in edited
        ],
        "orig": {**chains, "edit_triples": [flat["new_triples"][at] for _rewrite, at in edited]},
        **({} if split is None else {"6334_split": split}),
    }


def _hop(rewrite: dict[str, Any], flat: dict[str, Any]) -> int:
    labels = [(one[0], one[2]) for one in flat["new_triples_labeled"]]
    return labels.index((rewrite["subject"], rewrite["target_new_str"]))


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(make(7, ["edited"]))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Remastered]:
    """Write a data file and build the dataset that reads it."""

    def store(content: Any, *, variant: str = "CF3k", **options: str) -> Remastered:
        write_json(tmp_path / f"{variant}.json", content)
        return build_dataset(f"mquake-remastered-{variant.lower()}", data_dir=str(tmp_path), **options)

    return store


@pytest.fixture
def made() -> Callable[..., dict[str, Any]]:
    return make


@pytest.fixture
def nested() -> Callable[..., dict[str, Any]]:
    return nest


@pytest.fixture
def moved() -> Callable[..., dict[str, Any]]:
    return move
