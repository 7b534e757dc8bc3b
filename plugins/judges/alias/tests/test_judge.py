"""Verdicts beyond right and wrong, findings, and the pitfalls of published judges."""

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
    stale=Gold(entities=(OLD,)),
)


def judge(reply, query=QUERY, **options):
    return Alias(config=AliasConfig(**options)).judge(None, [Item(query=query, reply=reply)])[0]


def pair(gold: str, stale: str, form: str = "question") -> Query:
    return Query(
        id="q",
        texts=("?",),
        form=form,
        gold=Gold(entities=(Entity(label=gold),)),
        stale=Gold(entities=(Entity(label=stale),)),
    )


def test_the_old_answer_is_stale_not_just_wrong() -> None:
    judged = judge(Answer(text="USA"))
    assert judged.verdict is Verdict.STALE
    assert judged.findings == (Finding(item="USA", label="stale", entity="Q30"),)


def test_finding_names_the_alias_that_matched() -> None:
    assert judge(Answer(text="Republic of Croatia.")).findings == (
        Finding(item="Republic of Croatia", label="gold", entity="Q224"),
    )


def test_finding_spells_the_name_as_the_data_do() -> None:
    judged = judge(Answer(text="the REPUBLIC of croatia"), normalize="text")
    assert judged.findings == (Finding(item="Republic of Croatia", label="gold", entity="Q224"),)


def test_new_answer_beside_the_old_one_is_right_where_containing_is_enough() -> None:
    assert judge(Answer(text="once the USA, now Croatia"), match="contains").verdict is Verdict.RIGHT


def test_a_string_that_names_both_is_right() -> None:
    shared = Query(
        id="q",
        texts=("?",),
        gold=Gold(entities=(Entity(label="United Kingdom", aliases=("UK",)),)),
        stale=Gold(entities=(Entity(label="Great Britain and Ireland", aliases=("UK",)),)),
    )
    assert judge(Answer(text="UK"), shared).verdict is Verdict.RIGHT


@pytest.mark.parametrize(("form", "options"), [("cloze", {}), ("question", {"match": "contains"})])
def test_a_longer_old_name_is_not_taken_for_the_new_one(form, options) -> None:
    assert judge(Answer(text="Papua New Guinea"), pair("Guinea", "Papua New Guinea", form), **options).verdict is (
        Verdict.STALE
    )
    assert judge(Answer(text="New York City"), pair("New York", "New York City", form), **options).verdict is (
        Verdict.STALE
    )
    assert judge(Answer(text="New York City"), pair("New York City", "New York", form), **options).verdict is (
        Verdict.RIGHT
    )


@pytest.mark.parametrize("outcome", ["unparsed", "hop-cap", "length"])
def test_an_answer_that_did_not_end_well_is_wrong_and_says_how(outcome) -> None:
    judged = judge(Answer(text="Croatia", outcome=outcome))
    assert judged.verdict is Verdict.WRONG
    assert judged.findings == (Finding(item=outcome, label="outcome"),)


def test_every_entity_that_a_shared_name_belongs_to_is_found() -> None:
    """RippleEdits' released verifier asks for every target: one name may stand for two of them."""
    twins = (Entity(label="Georgia", id="Q230"), Entity(label="Georgia", id="Q1428"))
    query = Query(id="q", texts=("?",), gold=Gold(entities=twins, require="any"))
    assert [finding.entity for finding in judge(Answer(text="Georgia"), query).findings] == ["Q230", "Q1428"]


def test_gold_without_a_name_leaves_the_judge_unsure() -> None:
    nothing = Query(id="q", texts=("?",), gold=Gold())
    assert judge(Answer(text="Croatia"), nothing).verdict is Verdict.UNSURE


def test_stale_gold_without_a_name_matches_nothing() -> None:
    empty = Query(id="q", texts=("?",), gold=Gold(entities=(NEW,)), stale=Gold())
    assert judge(Answer(text="Oslo"), empty).verdict is Verdict.WRONG


def test_a_part_of_a_set_is_wrong_but_found() -> None:
    both = Query(id="q", texts=("?",), gold=Gold(entities=(NEW, OLD)))
    judged = judge(Answer(text="USA"), both)
    assert judged.verdict is Verdict.WRONG
    assert [finding.item for finding in judged.findings] == ["USA"]


def test_stale_numbers_are_seen() -> None:
    count = Query(
        id="q",
        texts=("?",),
        gold=Gold(entities=(Entity(label="3"),), require="number"),
        stale=Gold(entities=(Entity(label="2"),), require="number"),
    )
    assert judge(Answer(text="two"), count).verdict is Verdict.STALE


@pytest.mark.parametrize("match", ["exact", "contains"])
def test_prompt_text_is_not_an_answer(match) -> None:
    """RippleEdits' code tested the decoded prompt and answer together: the question names Croatia."""
    echoed = Answer(text="Oslo", raw=f"{QUERY.texts[0]} Oslo. Croatia")
    assert judge(echoed, match=match).verdict is Verdict.WRONG


@pytest.mark.parametrize("match", ["exact", "contains"])
@pytest.mark.parametrize("normalize", ["none", "case", "text"])
def test_v4_empty_alias_matches_nothing_and_every_alias_is_tried(match, normalize) -> None:
    """RAE stripped all but a-z, so that an alias became empty and was in every answer; and it tried only one."""
    query = Query(id="q", texts=("?",), gold=Gold(entities=(Entity(label="Tokyo", aliases=("", " ", "東京", "Edo")),)))
    options = {"match": match, "normalize": normalize}
    assert judge(Answer(text="Oslo"), query, **options).verdict is Verdict.WRONG
    assert judge(Answer(text=""), query, **options).verdict is Verdict.WRONG
    assert {judge(Answer(text=name), query, **options).verdict for name in ("Tokyo", "東京", "Edo")} == {Verdict.RIGHT}


@pytest.mark.parametrize("match", ["exact", "contains"])
def test_oracle_is_right_and_anti_oracle_is_not(match) -> None:
    names = [*NEW.names, *OLD.names]
    items = [Item(query=QUERY, reply=Answer(text=name)) for name in names]
    judged = Alias(config=AliasConfig(match=match)).judge(None, items)
    assert [one.verdict for one in judged] == [Verdict.RIGHT] * len(NEW.names) + [Verdict.STALE] * len(OLD.names)
