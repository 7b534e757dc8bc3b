"""Records in the format of UniEdit about countries, made from the embedded graph. Edits are true facts, as there."""

from __future__ import annotations

from functools import cache
from typing import Any

from ke_benchmarks import sort_key
from ke_benchmarks.graph import Graph, load_atlas, profiled_countries
from ke_core.plugin import Entity

RECORDS = 40
EDIT = ["h_e", "r_e", "t_e"]
Found = dict[str, Any]


@cache
def atlas_records() -> dict[str, Found]:
    """Return id to record: a fact of a country, a question that follows from it, and one that does not."""
    graph = load_atlas()
    countries = profiled_countries(graph, RECORDS, "uniedit")
    return {str(number): _record(graph, number, country) for number, country in enumerate(countries)}


def _record(graph: Graph, number: int, country: str) -> Found:
    kinds = (_rephrase, _reversal, _multi_hop, _same_entity)
    kind = kinds[number % len(kinds)]
    relation = "continent" if kind is _same_entity else "capital"
    near = (_subject, _relation, _unrelated)[number % 3]
    return {
        "edit": _fact(graph, country, relation),
        "generality": {"0": kind(graph, country)},
        "locality": {"0": near(graph, country, relation)},
    }


def _rephrase(graph: Graph, country: str) -> Found:
    prompt = f"{graph.mention(country)} is governed from its capital,"
    hop = _hop(graph, country, "capital", EDIT)
    return _single(prompt[0].upper() + prompt[1:], hop["target"], [[*EDIT, "f", "s"]], hop)


def _reversal(graph: Graph, country: str) -> Found:
    hop = _hop(graph, country, "capital", EDIT)
    return _single(f"{hop['target']} is the capital of", hop["subject"], [["t_e", "r_e", "h_e", "b", "s"]], hop)


def _multi_hop(graph: Graph, country: str) -> Found:
    """Return a question about the capital of the largest neighbor of another country, or a rephrased one."""
    holders = graph.holders("largest-neighbour", country)
    if not holders:
        return _rephrase(graph, country)
    first = min(holders, key=lambda holder: sort_key("uniedit hop", country, holder.key))
    hops = (_hop(graph, first.key, "largest-neighbour", ["e_0", "r_0", "h_e"]), _hop(graph, country, "capital", EDIT))
    prompt = f"The capital of the largest country that borders {graph.mention(first.key)} is"
    return _single(prompt, hops[1]["target"], [["e_0", "r_0", "h_e", "f", "s"], [*EDIT, "f", "s"]], *hops)


def _same_entity(graph: Graph, country: str) -> Found:
    continent = _objects(graph, country, "continent")[0]
    others = [other for other in graph.holders("continent", continent.key) if other.key != country]
    other = min(others, key=lambda one: sort_key("uniedit same", country, one.key))
    second = ["e_0", "r_e", "t_e"]
    chains = [
        {"paths": [[*EDIT, "f", "s"]], "one_hops": [_hop(graph, country, "continent", EDIT)]},
        {"paths": [[*second, "f", "s"]], "one_hops": [_hop(graph, other.key, "continent", second)]},
    ]
    return {
        "path_type": "double",
        "prompt": f"Do {graph.mention(country)} and {graph.mention(other.key)} lie on the same continent?",
        "target": "Yes",
        "single_path1": chains[0],
        "single_path2": chains[1],
    }


def _subject(graph: Graph, country: str, _relation: str) -> Found:
    return _about(graph, country, "currency", ["h_e", "r_0", "e_0"])


def _relation(graph: Graph, country: str, relation: str) -> Found:
    return _about(graph, _other(graph, country), relation, ["e_0", "r_e", "e_1"])


def _unrelated(graph: Graph, country: str, _relation: str) -> Found:
    return _about(graph, _other(graph, country), "currency", ["e_0", "r_0", "e_1"])


def _other(graph: Graph, country: str) -> str:
    """Return another country whose capital, continent and currency differ, and whose facts no record edits."""
    own = {_objects(graph, country, name)[0].key for name in ("capital", "continent", "currency")}
    others = [
        one
        for one in profiled_countries(graph, 1000, "uniedit")[RECORDS:]
        if not own & {_objects(graph, one, name)[0].key for name in ("capital", "continent", "currency")}
    ]
    return min(others, key=lambda one: sort_key("uniedit other", country, one))


def _about(graph: Graph, subject: str, relation: str, path: list[str]) -> Found:
    hop = _hop(graph, subject, relation, path)
    return _single(hop["prompt"], hop["target"], [[*path, "f", "s"]], hop)


def _single(prompt: str, target: str, paths: list[list[str]], *hops: Found) -> Found:
    return {"path_type": "single", "prompt": prompt, "target": target, "paths": paths, "one_hops": list(hops)}


def _hop(graph: Graph, subject: str, relation: str, path: list[str]) -> Found:
    return {"path": path, **_fact(graph, subject, relation)}


def _fact(graph: Graph, subject: str, relation: str) -> Found:
    found, head = _objects(graph, subject, relation)[0], graph.entity(subject)
    value = {"id": found.key, "label": found.label, "aliases": list(found.aliases)}
    return {
        "prompt": graph.cloze(subject, relation).prompt,
        "target": found.label,
        "subject": head.label,
        "head_entity": {"id": head.key, "label": head.label, "aliases": list(head.aliases)},
        "property": {"id": relation},
        "tail_entity": {"datatype": "wikibase-item", "value": value},
    }


def _objects(graph: Graph, subject: str, relation: str) -> tuple[Entity, ...]:
    return graph.objects(subject, relation)
