"""Records in the format of QAEdit about countries and cities, made from the embedded graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ke_benchmarks import sort_key
from ke_benchmarks.graph import Graph, load_atlas, other_object, sampled_subjects

REPHRASED = {
    "capital": "Which city serves as the capital of {}?",
    "currency": "Which currency do people use in {}?",
    "continent": "{} lies on which continent?",
    "country": "The city of {} belongs to which country?",
}
"""Relation to a second wording of its question. Each subject has one object."""
EACH, UNRELATED = 20, 5


@cache
def atlas_records() -> tuple[Mapping[str, Any], ...]:
    """Return 20 records of each relation, mixed: a fact with another object, and five questions about other facts."""
    graph = load_atlas()
    records = [
        _record(graph, relation, subject)
        for relation in REPHRASED
        for subject in sampled_subjects(graph, relation, EACH, "qaedit edit")
    ]
    return tuple(sorted(records, key=lambda record: sort_key("qaedit", record["prompt"])))


def _record(graph: Graph, relation: str, subject: str) -> dict[str, Any]:
    label = graph.entity(subject).label
    return {
        "source": "atlas",
        "prompt": graph.question(subject, relation),
        "target": other_object(graph, relation, subject, "qaedit target").label,
        "subject": label,
        "rephrase": REPHRASED[relation].format(label),
        "locality": _unrelated(graph, relation, subject),
    }


def _unrelated(graph: Graph, relation: str, subject: str) -> list[dict[str, str]]:
    """Return questions of the other relations about other subjects, with their true answers."""
    found = []
    for other in (name for name in REPHRASED if name != relation):
        for key in sorted(
            (node.key for node in graph.subjects(other) if graph.object(node.key, other) and node.key != subject),
            key=lambda key: sort_key("qaedit locality", relation, subject, other, key),
        )[:2]:
            answer = graph.object(key, other)
            assert answer is not None
            found.append({"loc": graph.question(key, other), "loc_ans": answer.label})
    return found[:UNRELATED]
