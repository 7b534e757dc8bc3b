"""Everything survives JSON and back, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ke_core.spec.codec import canonical, digest, from_json, to_json
from ke_core.spec.errors import BadConfig, BadData
from ke_core.spec.facts import Edit, Entity
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_core.spec.records import Record
from ke_core.spec.results import Reply
from ke_core.spec.runspec import Plan, RunSpec
from ke_testing import strategies as ours

KINDS = [
    (ours.cases, Case),
    (ours.edits, Edit),
    (ours.replies, Reply),
    (ours.records, Record),
    (ours.runspecs, RunSpec),
]


@pytest.mark.parametrize(("values", "kind"), KINDS, ids=["case", "edit", "reply", "record", "runspec"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_json_round_trip(values: st.SearchStrategy[Any], kind: Any, data: st.DataObject) -> None:
    value = data.draw(values)
    assert value == from_json(json.loads(json.dumps(to_json(value, kind))), kind, of="value")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spec=ours.runspecs)
def test_run_id_is_the_hash_of_the_canonical_json(spec: RunSpec) -> None:
    assert spec.id == digest(json.loads(canonical(to_json(spec))))


def test_extra_and_missing_fields_are_named_with_their_paths() -> None:
    raw = {"id": "e", "statement": "s", "before": {"subject": {"label": "x", "lable": 1}, "relation": {"label": "r"}}}
    with pytest.raises(BadData) as caught:
        from_json(raw, Edit, of="record 7", error=BadData)
    assert "lable" in str(caught.value)
    assert "record 7.before.subject" in str(caught.value)


def test_a_validators_own_words_are_kept() -> None:
    with pytest.raises(BadConfig, match="size must be at least 1, not 0"):
        from_json({"size": 0}, Plan, of="plan")


def test_json_of_a_case_without_judge_sentences_has_no_extra_field() -> None:
    query = Query(id="q", texts=("?",), gold=Gold(entities=(Entity(label="x"),)))
    case = Case(id="1", probes=(Probe(id="p", aspect="a", queries=(query,)),))
    assert set(to_json(case)) == {"id", "edits", "probes", "facts_before", "facts_after", "tags"}
    told = evolve(case, sentences_after=("It is so.",))
    assert to_json(told)["sentences_after"] == ["It is so."]
    assert from_json(to_json(told), Case, of="case") == told


def test_nan_has_no_canonical_json() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        canonical({"x": float("nan")})


def test_schema_numbers_are_always_written() -> None:
    spec = {"name": "n", "distribution": "d", "version": "1"}
    made = from_json(
        {
            "ke": "0",
            "model": {"source": "hf", "id": "m"},
            "editor": spec,
            "dataset": {"component": spec, "sha256": ""},
            "styles": [],
            "plan": {},
            "edited_form": "cloze",
        },
        RunSpec,
        of="run.json",
    )
    assert to_json(made)["schema"] == 1
    assert to_json(Entity(label="x"))["aliases"] == []
