"""Verdicts, findings, and errors of published judges."""

from __future__ import annotations

import pytest

from ke_core.plugin import Answer, Entity, Finding, Gold, Item, Query, Verdict
from ke_plugin_alias import AliasConfig
from ke_plugin_alias.judge import Alias

NEW = Entity(label="Croatia", aliases=("HR", "Republic of Croatia"), id="Q224")
OLD = Entity(label="United States of America", aliases=("USA", "US"), id="Q30")
QUERY = Query(
    id="q",
    texts=("Which country is Ellie Kemper a citizen of, Croatia or the USA?",),
    gold=Gold(entities=(NEW,)),
    pre_edit=Gold(entities=(OLD,)),
)


def judge(reply, query=QUERY, **options):
    return Alias(config=AliasConfig(**options)).judge(None, [Item(query=query, reply=reply)])[0]


def pair(gold: str, pre_edit: str, form: str = "question") -> Query:
    return Query(
        id="q",
        texts=("?",),
        form=form,
        gold=Gold(entities=(Entity(label=gold),)),
        pre_edit=Gold(entities=(Entity(label=pre_edit),)),
    )


def test_pre_edit_answer_is_pre_edit() -> None:
    judged = judge(Answer(text="USA"))
    assert judged.verdict is Verdict.PRE_EDIT
    assert judged.findings == (Finding(item="USA", label="pre-edit", entity="Q30"),)


def test_finding_contains_the_matching_alias() -> None:
    assert judge(Answer(text="Republic of Croatia.")).findings == (
        Finding(item="Republic of Croatia", label="gold", entity="Q224"),
    )


def test_finding_has_the_spelling_of_the_data() -> None:
    judged = judge(Answer(text="the REPUBLIC of croatia"), normalize="text")
    assert judged.findings == (Finding(item="Republic of Croatia", label="gold", entity="Q224"),)


def test_contains_accepts_the_new_answer_next_to_the_old_one() -> None:
    assert judge(Answer(text="once the USA, now Croatia"), match="contains").verdict is Verdict.RIGHT


def test_name_of_both_entities_is_right() -> None:
    shared = Query(
        id="q",
        texts=("?",),
        gold=Gold(entities=(Entity(label="United Kingdom", aliases=("UK",)),)),
        pre_edit=Gold(entities=(Entity(label="Great Britain and Ireland", aliases=("UK",)),)),
    )
    assert judge(Answer(text="UK"), shared).verdict is Verdict.RIGHT


@pytest.mark.parametrize(("form", "options"), [("cloze", {}), ("question", {"match": "contains"})])
def test_longer_pre_edit_name_is_pre_edit(form, options) -> None:
    assert judge(Answer(text="Papua New Guinea"), pair("Guinea", "Papua New Guinea", form), **options).verdict is (
        Verdict.PRE_EDIT
    )
    assert judge(Answer(text="New York City"), pair("New York", "New York City", form), **options).verdict is (
        Verdict.PRE_EDIT
    )
    assert judge(Answer(text="New York City"), pair("New York City", "New York", form), **options).verdict is (
        Verdict.RIGHT
    )


@pytest.mark.parametrize("outcome", ["unparsed", "hop-cap", "length"])
def test_failed_answer_is_wrong_with_its_outcome(outcome) -> None:
    judged = judge(Answer(text="Croatia", outcome=outcome))
    assert judged.verdict is Verdict.WRONG
    assert judged.findings == (Finding(item=outcome, label="outcome"),)


def test_shared_name_finds_every_entity() -> None:
    """RippleEdits' released code requires every target, and two targets may share a name."""
    twins = (Entity(label="Georgia", id="Q230"), Entity(label="Georgia", id="Q1428"))
    query = Query(id="q", texts=("?",), gold=Gold(entities=twins, require="any"))
    assert [finding.entity for finding in judge(Answer(text="Georgia"), query).findings] == ["Q230", "Q1428"]


def test_gold_without_a_name_is_unsure() -> None:
    nothing = Query(id="q", texts=("?",), gold=Gold())
    assert judge(Answer(text="Croatia"), nothing).verdict is Verdict.UNSURE


def test_pre_edit_gold_without_a_name_matches_nothing() -> None:
    empty = Query(id="q", texts=("?",), gold=Gold(entities=(NEW,)), pre_edit=Gold())
    assert judge(Answer(text="Oslo"), empty).verdict is Verdict.WRONG


def test_part_of_a_set_is_wrong_with_findings() -> None:
    both = Query(id="q", texts=("?",), gold=Gold(entities=(NEW, OLD)))
    judged = judge(Answer(text="USA"), both)
    assert judged.verdict is Verdict.WRONG
    assert [finding.item for finding in judged.findings] == ["USA"]


def test_pre_edit_number_is_recognized() -> None:
    count = Query(
        id="q",
        texts=("?",),
        gold=Gold(entities=(Entity(label="3"),), require="number"),
        pre_edit=Gold(entities=(Entity(label="2"),), require="number"),
    )
    assert judge(Answer(text="two"), count).verdict is Verdict.PRE_EDIT


@pytest.mark.parametrize("match", ["exact", "contains"])
def test_prompt_text_is_not_an_answer(match) -> None:
    """RippleEdits' code compares prompt and answer together, and the question contains "Croatia"."""
    echoed = Answer(text="Oslo", raw=f"{QUERY.texts[0]} Oslo. Croatia")
    assert judge(echoed, match=match).verdict is Verdict.WRONG


@pytest.mark.parametrize("match", ["exact", "contains"])
@pytest.mark.parametrize("normalize", ["none", "case", "text"])
def test_empty_alias_matches_nothing_and_every_alias_is_tried(match, normalize) -> None:
    """RAE's code removes all characters except a-z, so an alias becomes empty, and tries only one alias."""
    query = Query(id="q", texts=("?",), gold=Gold(entities=(Entity(label="Tokyo", aliases=("", " ", "東京", "Edo")),)))
    options = {"match": match, "normalize": normalize}
    assert judge(Answer(text="Oslo"), query, **options).verdict is Verdict.WRONG
    assert judge(Answer(text=""), query, **options).verdict is Verdict.WRONG
    assert {judge(Answer(text=name), query, **options).verdict for name in ("Tokyo", "東京", "Edo")} == {Verdict.RIGHT}


@pytest.mark.parametrize("match", ["exact", "contains"])
def test_gold_names_are_right_and_pre_edit_names_pre_edit(match) -> None:
    names = [*NEW.names, *OLD.names]
    items = [Item(query=QUERY, reply=Answer(text=name)) for name in names]
    judged = Alias(config=AliasConfig(match=match)).judge(None, items)
    assert [one.verdict for one in judged] == [Verdict.RIGHT] * len(NEW.names) + [Verdict.PRE_EDIT] * len(OLD.names)
