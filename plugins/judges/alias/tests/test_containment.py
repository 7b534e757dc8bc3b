"""The judge ``containment``: one rule for questions and clozes."""

from __future__ import annotations

from typing import Any

import pytest

from ke_core.plugin import Answer, Entity, Gold, Item, Query, Verdict
from ke_plugin_alias import ContainmentConfig, build_containment

POLITICIAN = ("politician", "pol", "p", "7")


def verdict(text: str, *names: tuple[str, ...], form: Any = "cloze", require: Any = "any", **options: Any) -> Verdict:
    entities = tuple(Entity(label=first, aliases=rest) for first, *rest in names)
    query = Query(id="q", texts=("She works as a",), form=form, gold=Gold(entities=entities, require=require))
    (judged,) = build_containment(ContainmentConfig(**options)).judge(
        None, [Item(query=query, reply=Answer(text=text))]
    )
    return judged.verdict


@pytest.mark.parametrize("form", ["question", "cloze"])
def test_name_may_occur_anywhere(form: str) -> None:
    assert verdict("well known politician of her time", POLITICIAN, form=form) is Verdict.RIGHT
    assert verdict("well known Politician", POLITICIAN, form=form) is Verdict.WRONG
    assert verdict("well known Politician", POLITICIAN, form=form, normalize="case") is Verdict.RIGHT


@pytest.mark.parametrize(
    ("text", "contains", "substring"),
    [
        ("from Poland, a police officer", Verdict.WRONG, Verdict.RIGHT),
        ("pastor", Verdict.WRONG, Verdict.WRONG),
        ("one of p and q", Verdict.WRONG, Verdict.WRONG),
        ("in 1975", Verdict.WRONG, Verdict.RIGHT),
        ("on the 7 of May", Verdict.RIGHT, Verdict.RIGHT),
    ],
    ids=["inside a word", "one letter", "one letter by itself", "one digit in a number", "one digit by itself"],
)
def test_substring_matches_inside_words_and_single_letters_never_count(
    text: str, contains: Verdict, substring: Verdict
) -> None:
    assert verdict(text, POLITICIAN) is contains
    assert verdict(text, POLITICIAN, rule="substring") is substring


def test_single_letter_alias_never_counts() -> None:
    """RippleEdits' released code ignores aliases of one character, except digits."""
    assert verdict("I'm not sure", ("male", "m"), form="question") is Verdict.WRONG
    assert verdict("M.", ("male", "m"), form="question", normalize="text") is Verdict.WRONG
    assert verdict("a male", ("male", "m"), form="question") is Verdict.RIGHT


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("答案是克兰。", "克兰", Verdict.RIGHT),
        ("答案是Paris。", "Paris", Verdict.RIGHT),
        ("答案是Parisian。", "Paris", Verdict.WRONG),
        ("คำตอบคือกรุงเทพมหานคร", "กรุงเทพมหานคร", Verdict.RIGHT),
        ("東京タワーです", "東京", Verdict.RIGHT),
        ("这是中国", "国", Verdict.WRONG),
        ("国。", "国", Verdict.RIGHT),
    ],
    ids=["Chinese", "Latin in Chinese", "longer word", "Thai", "Japanese", "one character inside", "one character"],
)
def test_names_in_scripts_without_spaces(text: str, name: str, found: Verdict) -> None:
    assert verdict(text, (name,), form="question") is found


@pytest.mark.parametrize("text", ["1,500 people", "1.500", "500,000", "500.5", "-500"])
def test_number_does_not_match_inside_a_longer_number(text: str) -> None:
    assert verdict(text, ("500",), form="question") is Verdict.WRONG
    assert verdict("500, or 500.", ("500",), form="question") is Verdict.RIGHT


@pytest.mark.parametrize("rule", ["contains", "substring"])
def test_any_and_all_targets(rule: str) -> None:
    """RippleEdits requires one target in section 5.1, and all of them in its released code."""
    assert verdict("It is Bo", ("Al",), ("Bo",), rule=rule) is Verdict.RIGHT
    assert verdict("It is Bo", ("Al",), ("Bo",), rule=rule, require="all") is Verdict.WRONG
    assert verdict("Bo and Al", ("Al",), ("Bo",), rule=rule, require="all") is Verdict.RIGHT
