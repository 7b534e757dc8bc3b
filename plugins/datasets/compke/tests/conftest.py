"""A record and a graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks.graph import Graph, parse
from ke_core.plugin import Case
from ke_testing.dataset import build_dataset, write_json


def thing(label: str, *aliases: str) -> dict[str, Any]:
    return {"str": label, "id": f"id-{label}", "aliases": list(aliases)}


def christine() -> dict[str, Any]:
    """Return the example of the paper: two of the film's three new places are shared with the other film."""
    la, sf, ny = thing("Los Angeles"), thing("San Francisco", "SF"), thing("New York")
    other = {"subject": thing("Pacific Heights"), "relation_id": "P915", "objects": [sf, la]}
    film = thing("Christine")

    def steps(first: list[str], last: list[str]) -> list[dict[str, Any]]:
        return [
            {"op": "map", "inputs": ["id-Christine"], "relation_id": "P915", "output": first},
            {"op": "map", "inputs": ["id-Pacific Heights"], "relation_id": "P915", "output": [sf["id"], la["id"]]},
            {"op": "intersect", "inputs": ["#1", "#2"], "output": last},
        ]

    return {
        "case_id": 1,
        "structure": "1",
        "edits": [
            {
                "subject": "Christine",
                "subject_id": "id-Christine",
                "relation_id": "P915",
                "prompt": "{} was filmed in",
                "old_objects": [la],
                "new_objects": [sf, la, ny],
            }
        ],
        "questions": ["Where were both filmed?", "Which places do both share?", "Name the places of both."],
        "answers": [la],
        "new_answers": [sf, la],
        "triples": [{"subject": film, "relation_id": "P915", "objects": [la]}, other],
        "new_triples": [{"subject": film, "relation_id": "P915", "objects": [sf, la, ny]}, other],
        "operations": steps([la["id"]], [la["id"]]),
        "new_operations": steps([sf["id"], la["id"], ny["id"]], [sf["id"], la["id"]]),
        "steps": ["Where was Christine filmed?", "Where was Pacific Heights filmed?", "What do T1 and T2 share?"],
    }


@pytest.fixture
def record() -> dict[str, Any]:
    return christine()


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Case]]:
    """Write a file and return its cases."""

    def cases(content: Any) -> list[Case]:
        return list(build_dataset("compke", file=str(write_json(tmp_path / "own.json", content))).cases())

    return cases


@pytest.fixture(scope="session")
def company() -> Graph:
    """A small company: people, teams, tools. Its relations have no templates in this package."""
    people = "Ada Ben Cem Dora Eli Fay Gus Hana Ivo Jun".split()  # noqa: SIM905  as a list of names
    teams, tools, towns = (
        ("Red", "Blue", "Green", "Gold"),
        ("Ruby", "Rust", "Go", "Perl", "Lua"),
        ("Bonn", "Graz", "Brno"),
    )
    entities = {f"person:{name}": {"label": name} for name in people}
    for kind, labels in (("team", teams), ("tool", tools), ("town", towns)):
        entities |= {f"{kind}:{label}": {"label": label} for label in labels}
    facts: dict[str, dict[str, list[str]]] = {
        "team": {f"person:{p}": [f"team:{teams[(n + k) % 4]}" for k in range(1 + n % 3)] for n, p in enumerate(people)},
        "tool": {f"team:{t}": [f"tool:{tools[(n + k) % 5]}" for k in range(2 + n % 2)] for n, t in enumerate(teams)},
        "town": {f"team:{t}": [f"town:{towns[n % 3]}"] for n, t in enumerate(teams)},
        "age": {f"person:{p}": [f"number:{30 + n}"] for n, p in enumerate(people)},
    }

    def relation(label: str, subject: str, object_: str, cloze: str, question: str) -> dict[str, Any]:
        return {"label": label, "subject": subject, "object": object_, "cloze": cloze, "question": question}

    relations = {
        "team": relation("team", "person", "team", "{} works in the team", "In which teams does {} work?")
        | {"functional": False},
        "tool": relation("tool", "team", "tool", "The team {} uses", "Which tools does the team {} use?")
        | {"functional": False},
        "town": relation("town", "team", "town", "The team {} sits in", "Where does the team {} sit?"),
        "age": relation("age", "person", "number", "The age of {} is", "How old is {}?"),
    }
    raw = {
        "name": "company",
        "version": "1",
        "sources": [],
        "relations": relations,
        "entities": entities,
        "facts": facts,
    }
    return parse(json.dumps(raw), "company.json")
