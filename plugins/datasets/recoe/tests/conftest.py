"""Made-up records in the formats of the release, and a graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks.graph import Graph, parse
from ke_core.plugin import Case
from ke_plugin_recoe import VARIANTS, RecoeConfig
from ke_plugin_recoe.dataset import Recoe
from ke_testing.dataset import build_dataset, write_json


def fact(sentence: str, *atoms: tuple[str, str], links: bool = False) -> dict[str, Any]:
    """Return a fact with its ``atoms``, each a sentence and a triple."""
    made: dict[str, Any] = {"fact": sentence}
    if links:
        made["links"] = ["https://example.org/wiki"]
    return {**made, "atomic_facts": [text for text, _ in atoms], "atomic_triples": [triple for _, triple in atoms]}


def published(sentence: str, *atoms: tuple[str, str]) -> dict[str, Any]:
    """Return a fact in the layout of counting, aggregation and subtraction."""
    made = fact(sentence, *atoms)
    return {"original_output": f"- {sentence}", "sentence": made.pop("fact"), **made}


def singer() -> dict[str, Any]:
    """Return a superlative with three atomic counterfactuals: one for the first choice, two for the second."""
    return {
        "question": "Which singer of the band Quay sold the most records?",
        "answer": "Ada Reed",
        "counterfactual_answer": "Mia Stone",
        "answer_alias": ["A.R.", "Mia Reed"],
        "counterfactual_answer_alias": ["Mia Holt", "Mia Reed"],
        "facts_per_choice": {
            "choice_1_facts": [
                fact(
                    "Ada Reed sold nine million records and won the Kelp Prize.",
                    ("Ada Reed sold nine million records.", "(Ada Reed; sold; nine million records)"),
                    ("Ada Reed won the Kelp Prize.", "(Ada Reed; won; the Kelp Prize)"),
                    links=True,
                )
            ],
            "choice_2_facts": [
                fact(
                    "Mia Stone sold two million records.",
                    ("Mia Stone sold two million records.", "(Mia Stone; sold; two million records)"),
                    links=True,
                )
            ],
        },
        "counterfactuals_per_choice": {
            "choice_1_counterfactuals": [
                fact(
                    "Ada Reed sold two million records.",
                    ("Ada Reed sold two million records.", "(Ada Reed; sold; two million records)"),
                )
            ],
            "choice_2_counterfactuals": [
                fact(
                    "Mia Stone sold nine million records and won the Kelp Prize.",
                    ("Mia Stone sold nine million records.", "(Mia Stone; sold; nine million records)"),
                    ("Mia Stone won the Kelp Prize.", "(Mia Stone; won; the Kelp Prize)"),
                )
            ],
            "unchanged_facts": [],
        },
    }


def total() -> dict[str, Any]:
    """An aggregation in the layout of the release: a group of facts for each component."""

    def count(band: str, number: int) -> list[dict[str, Any]]:
        text = f"{band} has {number} singers."
        return [published(text, (text, f"({band}; number of singers; {number})"))]

    def direct(band: str, number: int) -> dict[str, Any]:
        text = f"The number of singers of {band} is {number}."
        return {
            "fact": text,
            "atomic_facts": text,
            "atomic_triples": f"(The number of singers of {band}; is; {number})",
        }

    return {
        "question": "How many singers do Quay and Pier have together?",
        "answer": "7",
        "counterfactual_answer": "9",
        "answer_alias": ["seven"],
        "counterfactual_answer_alias": ["nine"],
        "indirect_fact": [count("Quay", 3), count("Pier", 4)],
        "indirect_counterfactual_fact": [count("Quay", 5), count("Pier", 4)],
        "direct_fact": [direct("Quay", 3), direct("Pier", 4)],
        "direct_counterfactual_fact": [direct("Quay", 5), direct("Pier", 4)],
        "extended_facts": [[*count("Quay", 3), *count("Dock", 8)], count("Pier", 4)],
        "domain": "music",
    }


def order() -> dict[str, Any]:
    """A sorting: facts per entity."""

    def sold(name: str, number: int) -> dict[str, Any]:
        text = f"{name} sold {number} records."
        return fact(text, (text, f"({name}; number of records sold; {number})"))

    return {
        "question": "Sort Ada Reed, Mia Stone and Leo Park by the records that they sold, fewest first.",
        "answer": "Leo Park, Mia Stone, Ada Reed",
        "counterfactual_answer": "Leo Park, Ada Reed, Mia Stone",
        "answer_alias": ["L. Park, Mia Holt, Ada Reed"],
        "counterfactual_answer_alias": [],
        "facts_per_choice": {"Ada Reed": [sold("Ada Reed", 9)], "Mia Stone": [sold("Mia Stone", 5)]},
        "counterfactuals_per_choice": {
            "Ada Reed": [sold("Ada Reed", 5)],
            "Mia Stone": [sold("Mia Stone", 9)],
            "unchanged_facts": [sold("Leo Park", 2)],
        },
    }


def counted() -> dict[str, Any]:
    """A counting in the layout of the release."""
    return {
        "question": "How many singers does the band Quay have?",
        "answer": "2",
        "answer_alias": ["two"],
        "counterfactual_answer": "1",
        "counterfactual_answer_alias": ["one"],
        "domain": "music",
        "facts": [
            published("Ada sings in Quay.", ("Ada sings in Quay", "(Ada; sings in; Quay)")),
            published("Mia sings in Quay.", ("Mia sings in Quay", "(Mia; sings in; Quay)")),
        ],
        "counterfactual_facts": [
            published("Ada sings in Quay.", ("Ada sings in Quay", "(Ada; sings in; Quay)")),
            published("Mia has never sung in Quay.", ("Mia has never sung in Quay", "(Mia; has never sung in; Quay)")),
        ],
        "extended_facts": [],
    }


@pytest.fixture
def count_record() -> dict[str, Any]:
    return counted()


@pytest.fixture
def record() -> dict[str, Any]:
    return singer()


@pytest.fixture
def total_record() -> dict[str, Any]:
    return total()


@pytest.fixture
def order_record() -> dict[str, Any]:
    return order()


@pytest.fixture
def graph() -> Graph:
    return shops()


@pytest.fixture
def read(tmp_path: Path, ke_no_data: Path) -> Callable[..., list[Case]]:
    """Write records like the release and return their cases."""

    def cases(*records: Any, scheme: str = "superlative", text: str | None = None) -> list[Case]:
        folder = tmp_path / "data" / scheme
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "part.json", records if text is None else text.encode())
        return list(Recoe(variant=VARIANTS[scheme], config=RecoeConfig(data_dir=str(tmp_path))).cases())

    return cases


@pytest.fixture
def own(tmp_path: Path, ke_no_data: Path) -> Callable[..., Recoe]:
    """Write an own file and build the dataset that reads it."""

    def made(*records: Any) -> Recoe:
        return build_dataset("recoe", file=str(write_json(tmp_path / "own.json", records)))

    return made


def shops(number: int = 12) -> Graph:
    """A company's facts: shops with areas (numbers) and what they sell (several objects)."""
    keys = [f"shop:{at:02}" for at in range(number)]
    goods = [f"ware:{letter}" for letter in "abcdefgh"]
    return parse(
        json.dumps(
            {
                "name": "shops",
                "version": "1",
                "sources": [],
                "relations": {
                    "size": {
                        "label": "floor size", "subject": "shop", "object": "number", "unit": "square metres",
                        "cloze": "The floor size of {} is", "question": "What is the floor size of {}?",
                    },
                    "sells": {
                        "label": "sells", "subject": "shop", "object": "ware", "functional": False,
                        "cloze": "{} sells", "question": "What does {} sell?",
                    },
                },
                "entities": {
                    **{key: {"label": f"Shop {at}", "aliases": [f"S{at}", f"Shop {(at + 1) % number}"]}
                       for at, key in enumerate(keys)},
                    **{key: {"label": key[-1].upper()} for key in goods},
                },
                "facts": {
                    "size": {key: [f"number:{100 * 2**at}"] for at, key in enumerate(keys)},
                    "sells": {key: goods[: at % 8 + 1] for at, key in enumerate(keys)},
                },
            }
        ),
        "shops.json",
    )  # fmt: skip
