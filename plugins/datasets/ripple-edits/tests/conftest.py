"""Published records, if they are on this machine, made-up records, and small graphs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ke_benchmarks.graph import BuildTools, Graph, Record, parse
from ke_core.plugin import Case
from ke_plugin_ripple_edits import RippleBuildConfig
from ke_plugin_ripple_edits.build import RippleBuilder
from ke_testing.dataset import build_dataset, no_published_files, write_json  # noqa: F401  a fixture

SAMPLE = "ripple_edits/sample.json"


@pytest.fixture(scope="session")
def sample(ke_data_dir: Path) -> Path:
    """Four published records."""
    if not (ke_data_dir / SAMPLE).is_file():
        pytest.skip(f"no {SAMPLE} in {ke_data_dir}")
    return ke_data_dir / SAMPLE


def query(
    prompt: str, *answers: str, subject: Any = "Q1", relation: str = "SPOUSE", ids: Any = None, **more: Any
) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "answers": [{"value": answer, "aliases": []} for answer in answers],
        "query_type": "regular",
        "subject_id": subject,
        "relation": relation,
        "target_ids": [f"Q-{answer}" for answer in answers] if ids is None else ids,
        "phrase": None,
        **more,
    }


def grouped(*queries: dict[str, Any], given: Iterable[dict[str, Any]] = (), condition: str = "OR") -> dict[str, Any]:
    return {"test_queries": list(queries), "test_condition": condition, "condition_queries": list(given)}


CHILD = query("The name of the child of Bea Dun is", "Cy", subject="Q2", relation="CHILD")
OTHER_NAME = query("The name of the spouse of Al X is", "Bea Dun", ids=["Q2"])
RECORD: dict[str, Any] = {
    "example_type": "popular",
    "edit": {
        "prompt": "The name of the spouse of Al Dun is Bea Dun.",
        "subject_id": "Q1",
        "relation": "SPOUSE",
        "target_id": "Q2",
        "original_fact": {
            "prompt": "The name of the spouse of Al Dun is Ada Moe.",
            "subject_id": "Q1",
            "relation": "SPOUSE",
            "target_id": "Q3",
        },
    },
    "Logical_Generalization": [
        grouped(query("The name of the spouse of Bea Dun is", "Al Dun", subject=["Q2"], ids=["Q1"]))
    ],
    "Compositionality_I": [
        grouped(
            query(
                "The name of the child of the spouse of Al Dun is",
                "Cy",
                ids=["Q2"],
                query_type="two_hop",
                second_relation="CHILD",
                second_hop_target_ids=["Q-Cy"],
            ),
            given=[CHILD],
        )
    ],
    "Compositionality_II": [],
    "Subject_Aliasing": [grouped(OTHER_NAME, given=[OTHER_NAME])],
    "Relation_Specificity": [grouped(query("The gender of Al Dun is", "male", relation="SEX_OR_GENDER"))],
    "Forgetfulness": [],
}


@pytest.fixture
def record() -> dict[str, Any]:
    """A made-up record in the published format."""
    return copy.deepcopy(RECORD)


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., list[Case]]:
    """Write records to a file and return its cases."""

    def load(*records: Any) -> list[Case]:
        path = write_json(tmp_path / "own.json", records)
        return list(build_dataset("ripple-edits", file=str(path)).cases())

    return load


def graph(relations: dict[str, Any], facts: dict[str, Any], entities: Iterable[str], **named: Any) -> Graph:
    """Return a graph whose labels are the parts of the keys after the colon, or given by ``named``."""
    nodes = {key: named.get(key.partition(":")[2], {"label": key.partition(":")[2]}) for key in entities}
    raw = {"name": "toy", "version": "1", "sources": [], "relations": relations, "entities": nodes, "facts": facts}
    return parse(json.dumps(raw), "toy.json")


def relation(label: str, subject: str, object_: str, **more: Any) -> dict[str, Any]:
    return {"label": label, "subject": subject, "object": object_, "cloze": f"The {label} of {{}} is", **more}


def records(graph_: Graph, *, cases: int = 300, seed: int = 0, **options: Any) -> list[Record]:
    return list(RippleBuilder(config=RippleBuildConfig(**options)).records(graph_, BuildTools(cases=cases, seed=seed)))


@pytest.fixture
def toy() -> SimpleNamespace:
    """Helpers of this file: tests cannot import it."""
    return SimpleNamespace(query=query, grouped=grouped, graph=graph, relation=relation, records=records, family=family)


PEOPLE = {
    "mother": relation("mother", "person", "person"),
    "father": relation("father", "person", "person"),
    "child": relation("child", "person", "person", functional=False),
    "brother": relation("brother", "person", "person", functional=False),
    "sibling": {**relation("sibling", "person", "person", functional=False), "cloze": "A sibling of {} is"},
    "gender": relation("gender", "person", "gender"),
    "number-of-children": relation("number of children", "person", "number"),
    "born": {**relation("date of birth", "person", "date"), "cloze": "The birthday of {} is"},
}


def family(**facts: dict[str, list[str]]) -> Graph:
    """Ed's parents are Old and Fay; Fay has Ed and Cis, New has Una and Ulf, and a brother Bob."""
    named = "ed old fay cis new una ulf bob"
    known = {
        "mother": {"ed": ["old"], "cis": ["old"], "una": ["new"], "ulf": ["new"]},
        "father": {"ed": ["fay"]},
        "child": {"fay": ["ed", "cis"], "new": ["una", "ulf"], "old": ["ed", "cis"]},
        "sibling": {"new": ["bob"]},
        "gender": {"bob": ["male"]},
        **facts,
    }
    rows = {
        name: {
            f"person:{s}": [o if ":" in o else ("gender:" if name == "gender" else "person:") + o for o in objects]
            for s, objects in known.get(name, {}).items()
        }
        for name in PEOPLE
    }
    entities = [*(f"person:{name}" for name in named.split()), "gender:male", "gender:female"]
    labels = {name: {"label": name.title()} for name in named.split()}
    return graph(PEOPLE, rows, entities, **labels)
