"""Records in the format of WikiBigEdit about countries and cities, made from the embedded graph."""

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
from ke_plugin_wikibigedit import ATLAS_STEPS

EACH = 4
"""Records of each relation in a timestep."""
PERSONA = "I write quiz cards for my pupils and need one more answer. {}"
HOPS = {
    "capital": "What is the capital of the country where the city of {} lies?",
    "currency": "What is the currency of the country where the city of {} lies?",
}


@cache
def atlas_records() -> tuple[tuple[Mapping[str, Any], ...], ...]:
    """Return the records of each timestep. Only the country of a city has a multi-hop question."""
    graph = load_atlas()
    found: list[list[dict[str, Any]]] = [[] for _ in range(ATLAS_STEPS)]
    edited = {relation: sampled_subjects(graph, relation, ATLAS_STEPS * EACH, "wikibigedit") for relation in REPHRASED}
    for relation, subjects in edited.items():
        for place, subject in enumerate(subjects):
            found[place % ATLAS_STEPS].append(_record(graph, relation, subject, edited))
    return tuple(tuple(sorted(step, key=lambda record: sort_key("wikibigedit", record["update"]))) for step in found)


def _record(graph: Graph, relation: str, subject: str, edited: Mapping[str, Collection[str]]) -> dict[str, Any]:
    label, new = graph.entity(subject).label, other_object(graph, relation, subject, "wikibigedit")
    question = graph.question(subject, relation)
    loc, loc_ans = unrelated_questions(graph, relation, subject, edited, "wikibigedit")[0]
    hops = [
        (text.format(label), found.label)
        for name, text in HOPS.items()
        if relation == "country" and (found := graph.object(new, name))
    ]
    mhop, mhop_ans = hops[0] if hops else (None, None)
    return {
        "tag": "update",
        "subject": label,
        "update": question,
        "rephrase": rephrased(graph, relation, subject),
        "personas": PERSONA.format(question) if relation in ("capital", "country") else None,
        "ans": new.label,
        "loc": loc,
        "loc_ans": loc_ans,
        "mhop": mhop,
        "mhop_ans": mhop_ans,
    }
