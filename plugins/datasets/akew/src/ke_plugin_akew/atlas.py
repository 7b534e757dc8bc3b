"""Records in the format of AKEW about countries, made from the embedded graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ke_benchmarks.graph import Graph, load_atlas, other_object, profile, profile_text, profiled_countries

EDITED = ("capital", "currency", "language")
RECORDS = 40


@cache
def atlas_records() -> tuple[Mapping[str, Any], ...]:
    """Return the records: a fact of a country with another object, a text about the country, and its triplets."""
    graph = load_atlas()
    countries = profiled_countries(graph, RECORDS, "akew")
    return tuple(
        _record(graph, number, country, EDITED[number % len(EDITED)]) for number, country in enumerate(countries)
    )


def _record(graph: Graph, number: int, country: str, relation: str) -> dict[str, Any]:
    new, true = other_object(graph, relation, country, "akew"), graph.object(country, relation)
    assert true is not None
    described = profile(graph, country, {relation: new})
    subject = graph.entity(country).label
    return {
        "case_id": number,
        "requested_rewrite": {
            "prompt": graph.cloze(country, relation).template,
            "subject": subject,
            "target_new": {"str": new.label},
            "target_true": {"str": true.label},
            "question": graph.question(country, relation),
            "fact_new_uns": profile_text(graph, country, described),
            "unsfact_triplets_GPT": [
                {"subject": subject, "prompt": graph.cloze(country, name).template, "target": found.label}
                for name, found in described.items()
            ],
        },
    }
