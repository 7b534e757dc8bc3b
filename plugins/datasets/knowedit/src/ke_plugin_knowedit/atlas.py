"""Records in the format of Wiki_counterfact about cities, made from the embedded graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ke_benchmarks.graph import Graph, load_atlas, other_object, sampled_subjects

RECORDS = 40
REASONING = {
    "continent": "The country where {} lies is on the continent of",
    "currency": "The currency of the country where {} lies is the",
}


@cache
def atlas_records() -> tuple[Mapping[str, Any], ...]:
    """Return the records: a city with another country, what follows from it, and what stays."""
    graph = load_atlas()
    return tuple(_record(graph, city) for city in sampled_subjects(graph, "country", RECORDS, "knowedit"))


def _record(graph: Graph, city: str) -> dict[str, Any]:
    entity, old = graph.entity(city), graph.object(city, "country")
    assert old is not None
    new = other_object(graph, "country", city, "knowedit")
    name, to = entity.label, graph.mention(new.key)
    aliased = [_item(f"{alias} is a city in", new.label) for alias in entity.aliases]
    reasoned = [
        _item(prompt.format(name), *graph.entity(found.key).names)
        for relation, prompt in REASONING.items()
        if (found := graph.object(new.key, relation)) and found != graph.object(old.key, relation)
    ]
    portability = {
        "Reasoning": reasoned,
        "Subject_Aliasing": aliased,
        "Logical_Generalization": [_item(f"Is {name} a city in {graph.mention(old.key)}?", "no", "false")],
    }
    return {
        "subject": name,
        "prompt": f"{name} is a city in",
        "target_new": to,
        "ground_truth": graph.mention(old.key),
        "rephrase": f"The city of {name} belongs to",
        "portability": {kind: items for kind, items in portability.items() if items},
        "locality": {
            "Relation_Specificity": [
                _item(graph.cloze(city, "city-population").prompt, found.label)
                for found in graph.objects(city, "city-population")
            ],
            "Forgetfulness": [_item(f"{name} is a city in a country that is not {to} but", graph.mention(old.key))],
        },
    }


def _item(prompt: str, *names: str) -> dict[str, Any]:
    return {"prompt": prompt, "ground_truth": [list(names)]}
