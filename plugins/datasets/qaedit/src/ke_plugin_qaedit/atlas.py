"""Records in the format of QAEdit about countries and cities, made from the embedded graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from ke_benchmarks import sort_key
from ke_benchmarks.graph import (
    REPHRASED,
    Graph,
    load_atlas,
    other_object,
    rephrased,
    sampled_subjects,
    unrelated_questions,
)

EACH, UNRELATED = 20, 5


@cache
def atlas_records() -> tuple[Mapping[str, Any], ...]:
    """Return 20 records of each relation, mixed: a fact with another object, and five questions about other facts."""
    graph = load_atlas()
    edited = {relation: sampled_subjects(graph, relation, EACH, "qaedit edit") for relation in REPHRASED}
    records = [
        _record(graph, relation, subject, edited) for relation, subjects in edited.items() for subject in subjects
    ]
    return tuple(sorted(records, key=lambda record: sort_key("qaedit", record["prompt"])))


def _record(graph: Graph, relation: str, subject: str, edited: Mapping[str, Collection[str]]) -> dict[str, Any]:
    return {
        "source": "atlas",
        "prompt": graph.question(subject, relation),
        "target": other_object(graph, relation, subject, "qaedit target").label,
        "subject": graph.entity(subject).label,
        "rephrase": rephrased(graph, relation, subject),
        "locality": [
            {"loc": question, "loc_ans": answer}
            for question, answer in unrelated_questions(graph, relation, subject, edited, "qaedit locality")[:UNRELATED]
        ],
    }
