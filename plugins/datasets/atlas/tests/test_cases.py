"""Every case follows MQuAKE's rules of construction (section 3)."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest

from ke_core.plugin import EFFICACY, Case, Entity, Fact, Query
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.cases import cases
from ke_plugin_atlas.dataset import Atlas
from ke_plugin_atlas.world import atlas_world
from ke_testing.dataset import DatasetContract

CASES = cases()
CELLS = {("2", "1"): 110, ("2", "2"): 90, ("3", "1"): 101, ("3", "2"): 68, ("3", "3"): 31}


class TestAtlas(DatasetContract):
    name = "atlas"


class TestAtlasMasked(DatasetContract):
    name = "atlas"
    options = {"mask": "true"}  # noqa: RUF012  as in the contract


class TestAtlasByEdits(DatasetContract):
    name = "atlas"
    options = {"view": "edits"}  # noqa: RUF012  as in the contract


def multi_hop(case: Case) -> tuple[Query, ...]:
    return next(probe.queries for probe in case.probes if probe.aspect == "multi-hop")


def named(text: str, entity: Entity) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE) for name in entity.names)


def edited(case: Case) -> dict[tuple[str, str], str]:
    return {(e.after.subject.key, e.after.relation.key): e.after.objects[0].key for e in case.edits if e.after}


def keys(facts: tuple[Fact, ...]) -> list[tuple[str, str]]:
    return [(fact.subject.key, fact.relation.key) for fact in facts]


def test_parrot_of_the_last_edit_is_right_in_222_cases() -> None:
    assert sum(case.edits[-1].added == case.facts_after[-1].objects for case in CASES) == 222


def test_tags_are_the_numbers_of_hops_and_edits() -> None:
    for case in CASES:
        assert int(case.tags["hops"]) == len(case.facts_after) == len(case.facts_before)
        assert int(case.tags["edits"]) == len(case.edits) > 0


@pytest.mark.parametrize("count", [20, 100])
def test_first_cases_are_representative(count: int) -> None:
    first = Counter((case.tags["hops"], case.tags["edits"]) for case in CASES[:count])
    for cell, whole in CELLS.items():
        assert abs(first[cell] - whole * count / len(CASES)) < 2
    assert len({case.facts_after[-1].relation.key for case in CASES[:count]}) == 4
    assert len({case.facts_after[0].relation.key for case in CASES[:count]}) == 3


def test_chains_connect_and_start_at_the_same_head() -> None:
    for case in CASES:
        for chain in (case.facts_before, case.facts_after):
            for fact, following in pairwise(chain):
                assert fact.objects == (following.subject,)
        assert case.facts_before[0].subject == case.facts_after[0].subject


def test_chains_have_no_cycle_and_no_repeated_or_inverse_relation() -> None:
    graph = atlas_world().graph
    for case in CASES:
        for chain in (case.facts_before, case.facts_after):
            entities = [chain[0].subject.key, *(fact.objects[0].key for fact in chain)]
            relations = [fact.relation.key for fact in chain]
            assert len(set(entities)) == len(entities)
            assert len(set(relations)) == len(relations)
            assert not {graph.links[name].inverse for name in relations} & set(relations)
        assert [f.relation for f in case.facts_before] == [f.relation for f in case.facts_after]


def test_old_chain_is_in_the_atlas_and_new_chain_in_the_edited_atlas() -> None:
    graph = atlas_world().graph
    for case in CASES:
        changes = edited(case)
        for fact in case.facts_before:
            assert graph.objects(fact.subject, fact.relation.key) == fact.objects
        for fact in case.facts_after:
            real = graph.object(fact.subject, fact.relation.key)
            expected = changes.get((fact.subject.key, fact.relation.key), real.key if real else None)
            assert fact.objects[0].key == expected


def test_edits_are_on_the_new_chain_in_order() -> None:
    for case in CASES:
        on_chain = [key for key in keys(case.facts_after) if key in edited(case)]
        assert on_chain == list(edited(case))


def test_edits_keep_the_type_of_the_object() -> None:
    graph = atlas_world().graph
    for case in CASES:
        for edit in case.edits:
            assert edit.operation == "replace"
            (new,), (old,) = edit.added, edit.removed
            assert graph.nodes[new.key].kind == graph.nodes[old.key].kind
            assert not {n.casefold() for n in new.names} & {n.casefold() for n in old.names}


def test_statement_is_cloze_and_new_object() -> None:
    for case in CASES:
        for edit in case.edits:
            assert edit.cloze is not None
            start, end = edit.cloze.span
            assert edit.before is not None
            assert edit.cloze.prompt[start:end] == edit.before.subject.label
            assert edit.statement == f"{edit.cloze.prompt} {edit.added[0].label}"
            assert len(edit.added[0].label) <= 16


def test_answer_changes() -> None:
    for case in CASES:
        old, new = case.facts_before[-1].objects[0], case.facts_after[-1].objects[0]
        assert not {n.casefold() for n in new.names} & {n.casefold() for n in old.names}
        for query in multi_hop(case):
            assert query.gold.entities == (new,)
            assert query.pre_edit is not None
            assert query.pre_edit.entities == (old,)


def test_question_names_only_the_head_of_the_chain() -> None:
    for case in CASES:
        for query in multi_hop(case):
            assert len(set(query.texts)) == 3
            for text in query.texts:
                assert case.facts_before[0].subject.label in text
                for fact in (*case.facts_before, *case.facts_after):
                    assert not named(text, fact.objects[0])


def test_each_wording_comes_first_once_per_case() -> None:
    for case in CASES:
        queries = multi_hop(case)
        assert len(queries) == 3
        assert {query.texts[0] for query in queries} == set(queries[0].texts)


def test_questions_are_unique() -> None:
    questions = [query.texts[0] for case in CASES for query in multi_hop(case)]
    assert len(set(questions)) == len(questions)


def test_probes_are_those_of_mquake() -> None:
    for case in CASES:
        by_id = {probe.id: probe for probe in case.probes}
        efficacy = [probe for probe in case.probes if probe.aspect == EFFICACY]
        assert [probe.edits for probe in efficacy] == [(edit.id,) for edit in case.edits]
        assert [probe.queries[0].edit for probe in efficacy] == [edit.id for edit in case.edits]
        before, after, questions = by_id["instance-before"], by_id["instance-after"], by_id["multi-hop"]
        assert (before.phase, after.phase, questions.phase) == ("before", "after", "both")
        assert (before.require, after.require, questions.require) == ("all", "all", "any")
        for query in questions.queries:
            assert query.hops == after.queries
            assert query.hops_before == before.queries
        for probe in efficacy:
            assert probe.queries[0] in after.queries


def test_hop_questions_match_the_facts_of_the_chain() -> None:
    for case in CASES:
        query = multi_hop(case)[0]
        for hops, facts in ((query.hops, case.facts_after), (query.hops_before, case.facts_before)):
            for hop, fact in zip(hops, facts, strict=True):
                assert hop.gold.entities == fact.objects
                assert hop.relation == fact.relation.key
                assert hop.cloze is not None
                assert fact.subject.label in hop.texts[0]
                assert fact.subject.label in hop.cloze


def test_answers_are_the_gold_answers_after_editing() -> None:
    answers = Atlas(config=AtlasConfig()).material()["answers"]
    assert answers.oracle
    for case in CASES:
        asked = {q.id: q for probe in case.probes if probe.asked("after") for q in probe.queries}
        for query in asked.values():
            assert answers.value[f"{case.id}/{query.id}"] == query.gold.entities[0].label


def test_no_alias_is_blank() -> None:
    aliases = Atlas(config=AtlasConfig()).material()["aliases"]
    assert aliases.oracle
    assert all(name.strip() for names in aliases.value.values() for name in names)
    labels = {label.casefold() for label in aliases.value}
    assert not labels & {name.casefold() for names in aliases.value.values() for name in names}


def test_sub_questions_follow_the_chains_with_true_answers() -> None:
    material = Atlas(config=AtlasConfig()).material()["sub-questions"]
    assert material.oracle
    for case in CASES:
        for query in multi_hop(case):
            hops = material.value[f"{case.id}/{query.id}"]
            assert [hop.question for hop in hops["after"]] == [hop.texts[0] for hop in query.hops]
            assert [hop.answer for hop in hops["before"]] == [f.objects[0].label for f in case.facts_before]
            for hop, fact in zip(hops["after"], case.facts_after, strict=True):
                real = atlas_world().graph.object(fact.subject, fact.relation.key)
                assert hop.answer == real.label
