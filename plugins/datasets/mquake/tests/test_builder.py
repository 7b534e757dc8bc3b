"""MQuAKE's construction on small graphs and on the embedded one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks.graph import BuildTools, Graph, RecallProbe, parse
from ke_core.plugin import BadData
from ke_plugin_mquake import MquakeBuild
from ke_plugin_mquake.builder import MquakeBuilder
from ke_plugin_mquake.dataset import Mquake, atlas_records
from ke_plugin_mquake.records import MquakeRecord

RELATIONS = {
    "employer": {"label": "employer", "subject": "person", "object": "company", "cloze": "{} works for",
                 "question": "Which company does {} work for?"},
    "seat": {"label": "seat", "subject": "company", "object": "city", "cloze": "The seat of {} is",
             "question": "What is the seat of {}?"},
    "mayor": {"label": "mayor", "subject": "city", "object": "person", "inverse": "mayor-of",
              "cloze": "The mayor of {} is", "question": "Who is the mayor of {}?"},
    "mayor-of": {"label": "mayor of", "subject": "person", "object": "city", "inverse": "mayor",
                 "cloze": "{} is the mayor of", "question": "Of which city is {} the mayor?"},
    "rivals": {"label": "rivals", "subject": "company", "object": "company", "functional": False,
               "cloze": "The rivals of {} are", "question": "Which are the rivals of {}?"},
    "staff": {"label": "staff", "subject": "company", "object": "number", "cloze": "The staff of {} is",
              "question": "How many people work for {}?"},
}  # fmt: skip


def small(size: int = 6, **changes: str) -> Graph:
    """People work for companies, companies sit in cities, cities have mayors, who work for companies."""
    people, companies, cities = ([f"{k}:{n}" for n in range(size)] for k in ("person", "company", "city"))
    names = {"person": "Ann", "company": "Firm", "city": "Town"}
    employer = {p: [companies[(n * 5 + 1) % size]] for n, p in enumerate(people)}
    for person, company in changes.items():
        employer[f"person:{person[1:]}"] = [company]
    mayor = {c: [people[(n + 2) % size]] for n, c in enumerate(cities)}
    entities = {
        key: {"label": f"{names[key.split(':')[0]]} {key.split(':')[1]}x"} for key in (*people, *companies, *cities)
    }
    facts = {
        "employer": employer,
        "seat": {c: [cities[(n * 5 + 3) % size]] for n, c in enumerate(companies)},
        "mayor": mayor,
        "mayor-of": {person: [city] for city, (person,) in mayor.items()},
        "rivals": {c: [o for o in companies if o != c] for c in companies},
        "staff": {c: [f"number:{n}"] for n, c in enumerate(companies)},
    }
    raw = {"name": "small", "version": "1", "sources": [], "relations": RELATIONS, "entities": entities, "facts": facts}
    return parse(json.dumps(raw), "small.json")


def built(graph: Graph, cases: int = 40, tools: dict[str, Any] | None = None, **config: Any) -> list[MquakeRecord]:
    made = BuildTools(cases=cases, **(tools or {}))
    return list(MquakeBuilder(config=MquakeBuild(**config)).built(graph, made))


def check(record: MquakeRecord) -> None:
    """Check the rules of section 3.1 and the format."""
    orig = record.orig
    for triples in (orig.triples, orig.new_triples):
        assert all(one[2] == following[0] for one, following in pairwise(triples))
        things = [triples[0][0], *(t[2] for t in triples)]
        assert len(set(things)) == len(things)
        relations = [t[1] for t in triples]
        assert len(set(relations)) == len(relations)
        assert not {"mayor", "mayor-of"} <= set(relations)
        assert not {"capital", "capital-of"} <= set(relations)
    assert [t[1] for t in orig.triples] == [t[1] for t in orig.new_triples]
    assert orig.triples[0][0] == orig.new_triples[0][0]
    assert [t for t in orig.new_triples if t in orig.edit_triples] == list(orig.edit_triples)
    assert not {record.answer, *record.answer_alias} & {record.new_answer, *record.new_answer_alias}
    assert len(set(record.questions)) == 3
    head = orig.new_triples_labeled[0][0]
    others = {t[2] for t in (*orig.triples_labeled, *orig.new_triples_labeled)}
    for question in record.questions:
        assert head in question
        assert not [name for name in others if re.search(rf"\b{re.escape(name)}\b", question.replace(head, ""))]


def test_chains_follow_the_rules() -> None:
    records = built(small())
    assert {len(record.new_single_hops) for record in records} == {2, 3}
    for record in records:
        check(record)
        assert not {"rivals", "staff"} & {t[1] for t in record.orig.new_triples}


@pytest.mark.parametrize("seed", [0, 1])
def test_one_world_gives_a_fact_one_object(seed: int) -> None:
    records = built(small(12), tools={"seed": seed})
    said: dict[tuple[str, str], str] = {}
    for record in records:
        for subject, relation, object_ in record.orig.new_triples:
            assert said.setdefault((subject, relation), object_) == object_


def test_edits_per_case_give_a_fact_several_objects() -> None:
    records = built(small(12), edits="case", cases=80)
    new: dict[tuple[str, str], set[str]] = {}
    for record in records:
        check(record)
        for subject, relation, object_ in record.orig.edit_triples:
            new.setdefault((subject, relation), set()).add(object_)
    assert any(len(objects) > 1 for objects in new.values())
    assert {len(record.requested_rewrite) for record in records} >= {1, 2}


def test_records_depend_on_graph_and_seed() -> None:
    assert built(small()) == built(small())
    assert built(small(12)) != built(small(12), tools={"seed": 5})


def test_chains_with_unrecalled_facts_are_dropped() -> None:
    graph, dropped = small(12), Counter[str]()
    forgotten = [f"Firm {n}x" for n in range(1, 12, 2)]

    def recalls(asked: Sequence[RecallProbe]) -> list[bool]:
        return [not any(name in one.question for name in forgotten) for one in asked]

    records = built(graph, tools={"recalls": recalls, "dropped": lambda reason: dropped.update([reason])})
    assert records
    for record in records:
        edited = set(record.orig.edit_triples)
        asked = {*record.orig.triples, *(t for t in record.orig.new_triples if t not in edited)}
        assert not {f"company:{n}" for n in range(1, 12, 2)} & {t[0] for t in asked}
    assert dropped["the model does not recall a fact of the chain"]


def test_rewritten_questions_must_not_name_the_chain() -> None:
    plain = built(small())
    loud = built(small(), tools={"phrase": lambda texts: [f"Say: {text}" for text in texts]})
    assert loud[0].questions[0] == f"Say: {plain[0].questions[0]}"
    with pytest.raises(BadData, match="no usable chain"):
        built(
            small(),
            tools={
                "phrase": lambda texts: [
                    f"{text} Firm 1x Town 1x " + " ".join(f"Firm {n}x Town {n}x Ann {n}x" for n in range(6))
                    for text in texts
                ]
            },
        )


def test_option_newer_uses_real_changes(tmp_path: Path) -> None:
    old, new = small(), small(a0="company:4")
    raw = {
        "name": "newer", "version": "2", "sources": [], "relations": RELATIONS,
        "entities": {key: {"label": node.entity.label} for key, node in new.nodes.items()},
        "facts": {r: {s: list(o) for s, o in rows.items()} for r, rows in new.triples.items()},
    }  # fmt: skip
    (tmp_path / "newer.json").write_text(json.dumps(raw))
    records = built(old, newer=str(tmp_path / "newer.json"))
    assert records
    for record in records:
        check(record)
        assert record.orig.edit_triples == (("person:0", "employer", "company:4"),)


def test_unusable_graph_is_rejected() -> None:
    with pytest.raises(BadData, match="small has no relation 'salary'"):
        built(small(), relations="salary")
    with pytest.raises(BadData, match="small has no usable chain of"):
        built(small(), relations="seat")


def test_built_records_are_readable(tmp_path: Path, make: Any) -> None:
    raw = list(MquakeBuilder(config=MquakeBuild()).records(small(12), BuildTools(cases=10)))
    (tmp_path / "cases.json").write_text(json.dumps(raw))
    dataset = make("mquake", file=str(tmp_path / "cases.json"))
    assert isinstance(dataset, Mquake)
    found = tuple(dataset.cases())
    assert [case.id for case in found] == [str(n) for n in range(1, 11)]
    hop = next(query for probe in found[0].probes for query in probe.queries if query.relation)
    assert dataset.prompt(hop, "direct").text.endswith(f"Q: {hop.texts[0]} A:")


def test_option_file_of_mquake(tmp_path: Path, make: Any) -> None:
    with pytest.raises(BadData, match="the dataset mquake needs a file"):
        make("mquake")
    with pytest.raises(BadData, match="no file"):
        make("mquake", file=str(tmp_path / "none.json"))
    with pytest.raises(BadData, match=r"does not read mquake\.file"):
        make("mquake-cf-3k", file=str(tmp_path / "none.json"))


def test_mquake_atlas() -> None:
    records = atlas_records()
    assert len(records) == 400
    said: dict[tuple[str, str], str] = {}
    for record in records:
        check(record)
        for subject, relation, object_ in record.orig.new_triples_labeled:
            assert said.setdefault((subject, relation), object_) == object_
    assert len({record.questions[0] for record in records}) == 400
    cells = Counter((len(r.new_single_hops), len(r.requested_rewrite)) for r in records)
    assert cells == {(2, 1): 159, (2, 2): 41, (3, 1): 108, (3, 2): 79, (3, 3): 13}
