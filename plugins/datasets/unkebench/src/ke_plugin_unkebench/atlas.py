"""Records in the format of UnKEBench about countries, made from the embedded graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ke_benchmarks.graph import Graph, load_atlas, other_object, profile, profile_text, profiled_countries

CHANGED = ("capital", "language", "currency")
"""The relations with a counterfactual object. The continent is the true one."""
RECORDS = 40
QUESTION = "What should a visitor know about {}?"
REPHRASED = "Describe {} to someone who travels there for the first time."


@cache
def atlas_records() -> tuple[Mapping[str, Any], ...]:
    """Return the records: a country, its counterfactual description, and a question about each sentence."""
    graph = load_atlas()
    countries = profiled_countries(graph, RECORDS, "unkebench")
    return tuple(_record(graph, number, country) for number, country in enumerate(countries))


def _record(graph: Graph, number: int, country: str) -> dict[str, Any]:
    changed = {relation: other_object(graph, relation, country, "unkebench") for relation in CHANGED}
    described = profile(graph, country, changed)
    return {
        "id": number,
        "question": QUESTION.format(graph.mention(country)),
        "para_question": REPHRASED.format(graph.mention(country)),
        "answer": profile_text(graph, country, described),
        "sub_question": [graph.question(country, relation) for relation in described],
        "sub_answer": [f"{entity.label}." for entity in described.values()],
    }
