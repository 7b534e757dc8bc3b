"""The sample of real records where it is on this machine, and a small family and a small world to edit."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ke_benchmarks.graph import BuildTools, Graph, Record, parse
from ke_core.app import configure, discover, read_catalog
from ke_core.plugin import Case
from ke_plugin_ripple_edits import RippleBuildConfig
from ke_plugin_ripple_edits.build import RippleBuilder
from ke_plugin_ripple_edits.dataset import RippleEdits

SAMPLE = "ripple_edits/sample.json"
Spoil = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="session")
def sample(ke_data_dir: Path) -> Path:
    """Four real records."""
    if not (ke_data_dir / SAMPLE).is_file():
        pytest.skip(f"no {SAMPLE} in {ke_data_dir}")
    return ke_data_dir / SAMPLE


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds data or fetches it unless it says so."""
    monkeypatch.delenv("KE_DATA_DIR", raising=False)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))


def made(name: str = "ripple-edits", **options: str) -> RippleEdits:
    catalog = read_catalog(discover())
    spec = catalog.spec("dataset", name)
    dataset = spec.build(configure(spec, options))
    assert isinstance(dataset, RippleEdits)
    return dataset


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
    """A record of ours in the published format, to spoil."""
    return copy.deepcopy(RECORD)


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[..., list[Case]]:
    """Records to cases, by way of a file."""

    def load(*records: Any, text: str | None = None) -> list[Case]:
        path = tmp_path / "own.json"
        path.write_text(json.dumps(list(records)) if text is None else text, encoding="utf-8")
        return list(made(file=str(path)).cases())

    return load


def graph(relations: dict[str, Any], facts: dict[str, Any], entities: Iterable[str], **named: Any) -> Graph:
    """A graph whose entities are labeled by what stands after the colon, unless ``named`` says otherwise."""
    nodes = {key: named.get(key.partition(":")[2], {"label": key.partition(":")[2]}) for key in entities}
    raw = {"name": "toy", "version": "1", "sources": [], "relations": relations, "entities": nodes, "facts": facts}
    return parse(json.dumps(raw), "toy.json")


def relation(label: str, subject: str, object_: str, **more: Any) -> dict[str, Any]:
    return {"label": label, "subject": subject, "object": object_, "cloze": f"The {label} of {{}} is", **more}


def records(graph_: Graph, *, cases: int = 300, seed: int = 0, **options: Any) -> list[Record]:
    return list(RippleBuilder(config=RippleBuildConfig(**options)).records(graph_, BuildTools(cases=cases, seed=seed)))


@pytest.fixture
def toy() -> SimpleNamespace:
    """What tests make things with: tests cannot import one another."""
    return SimpleNamespace(
        made=made, query=query, grouped=grouped, graph=graph, relation=relation, records=records, family=family
    )


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
