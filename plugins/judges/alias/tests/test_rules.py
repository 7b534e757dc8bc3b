"""Matching rules: one line per case, named after its rule."""

from __future__ import annotations

import pytest

from ke_core.plugin import Answer, Entity, Gold, Item, Query, Verdict
from ke_plugin_alias import AliasConfig
from ke_plugin_alias.judge import Alias
from ke_plugin_alias.numbers import number

RIGHT, WRONG, PRE_EDIT, UNSURE = Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT, Verdict.UNSURE
EXACT, CASE, TEXT = {}, {"normalize": "case"}, {"normalize": "text"}
CONTAINS, LOOSE = {"match": "contains"}, {"match": "contains", "normalize": "text"}

USA = ("United States of America", "the United States", "U.S.", "US", "America")
CROATIA = ("Croatia", "HR", "Republic of Croatia")
DC = ("Washington, D.C.", "Washington")
PRESIDENT = ("Kolinda Grabar-Kitarović", "Grabar-Kitarović")

# (answer, names of the gold entity, options, verdict)
QUESTIONS = {
    "MQuAKE runner: equality with the label": ("Croatia", CROATIA, EXACT, RIGHT),
    "MQuAKE runner: equality with the first alias": ("HR", CROATIA, EXACT, RIGHT),
    "every alias is tried": ("Republic of Croatia", CROATIA, EXACT, RIGHT),
    "MQuAKE runner: case matters": ("croatia", CROATIA, EXACT, WRONG),
    "case-insensitive variant, GWalk": ("cROATIA", CROATIA, CASE, RIGHT),
    "case folds an alias as well": ("hr", CROATIA, CASE, RIGHT),
    "case: sharp s folds to two letters": ("STRASSE", ("Straße",), CASE, RIGHT),
    "spaces around the answer are ignored": ("  Croatia \n", CROATIA, EXACT, RIGHT),
    "one final period is ignored": ("Croatia.", CROATIA, EXACT, RIGHT),
    "two final periods are wrong": ("Croatia..", CROATIA, EXACT, WRONG),
    "a final exclamation mark is wrong": ("Croatia!", CROATIA, EXACT, WRONG),
    "a name may end with a period": ("U.S.", USA, EXACT, RIGHT),
    "the period of a name is required": ("U.S", USA, EXACT, WRONG),
    "a final period after the name's own": ("U.S..", USA, EXACT, RIGHT),
    "a name may contain a comma": ("Washington, D.C.", DC, EXACT, RIGHT),
    "exact: more text is wrong": ("Croatia, in Europe", CROATIA, EXACT, WRONG),
    "exact: a sentence is wrong": ("It is Croatia", CROATIA, EXACT, WRONG),
    "exact: a leading article matters": ("The United States", ("United States",), EXACT, WRONG),
    "exact: punctuation inside matters": ("Guinea Bissau", ("Guinea-Bissau",), EXACT, WRONG),
    "exact: diacritics matter": ("Kolinda Grabar-Kitarovic", PRESIDENT, EXACT, WRONG),
    "exact: one name twice is not the name": ("Croatia, Croatia", CROATIA, EXACT, WRONG),
    "exact: two names of one entity are wrong": ("Croatia (HR)", CROATIA, EXACT, WRONG),
    "empty answer": ("", CROATIA, EXACT, WRONG),
    "answer of spaces": ("   ", CROATIA, CONTAINS, WRONG),
    "answer of a period": (".", CROATIA, LOOSE, WRONG),
    "text: diacritics": ("Kolinda Grabar-Kitarovic", PRESIDENT, TEXT, RIGHT),
    "text: composed and decomposed letters are equal": ("Me\u0301xico", ("México",), TEXT, RIGHT),
    "text: leading article": ("The United States", ("United States",), TEXT, RIGHT),
    "text: article of the alias": ("United States", USA, TEXT, RIGHT),
    "text: hyphen and space": ("Guinea Bissau", ("Guinea-Bissau",), TEXT, RIGHT),
    "text: points in initials": ("US", ("U.S.",), TEXT, RIGHT),
    "text: apostrophes, straight and curly": ("O\u2019Brien", ("O'Brien",), TEXT, RIGHT),
    "text: quotation marks": ('"Croatia"', CROATIA, TEXT, RIGHT),
    "text: spaces inside": ("Republic  of\tCroatia", CROATIA, TEXT, RIGHT),
    "text: a longer word is wrong": ("Croatian", CROATIA, TEXT, WRONG),
    "text: a name that is all articles": ("the the", ("The The",), TEXT, RIGHT),
    "text: other scripts are compared": ("Москва", ("Moscow", "Москва"), TEXT, RIGHT),
    "text: other scripts do not match one another": ("東京", ("Moscow", "Москва"), TEXT, WRONG),
    "text: space and hyphen": ("It is Guinea-Bissau", ("Guinea Bissau",), LOOSE, RIGHT),
    "text: not in a compound": ("It is Guinea-Bissau.", ("Guinea",), LOOSE, WRONG),
    "text: not in a longer number": ("about 1,500 people", ("500",), LOOSE, WRONG),
    "text: not in a negative number": ("-5 degrees", ("5",), LOOSE, WRONG),
    "text: a decimal point is part of the number": ("35", ("3.5",), TEXT, WRONG),
    "text: a sign is part of the number": ("5", ("-5",), TEXT, WRONG),
    "text: thousands separators": ("1500", ("1,500",), TEXT, RIGHT),
    "text: kana with and without a voicing mark": ("バリ", ("パリ",), TEXT, WRONG),
    "text: vocalized Hebrew": ("שָׁלוֹם", ("שלום",), TEXT, RIGHT),
    "contains: the name inside a sentence": ("She is a citizen of Croatia today", CROATIA, CONTAINS, RIGHT),
    "contains: at the end, before punctuation": ("I think it is Croatia.", CROATIA, CONTAINS, RIGHT),
    "contains: an alias inside a sentence": ("It is the Republic of Croatia", CROATIA, CONTAINS, RIGHT),
    "contains: not inside a word (Niger, Nigeria)": ("She lives in Nigeria", ("Niger",), CONTAINS, WRONG),
    "contains: not in a compound": ("He is from Guinea-Bissau", ("Guinea",), CONTAINS, WRONG),
    "contains: a two-letter alias needs its case": ("the answer is hr", CROATIA, CONTAINS, WRONG),
    "contains: a two-letter alias not in a word": ("HRH the King", CROATIA, CONTAINS, WRONG),
    "contains: possessive": ("Croatia's president", CROATIA, CONTAINS, RIGHT),
    "contains: pattern characters are letters": ("C++ (1998)", ("C++",), CONTAINS, RIGHT),
    "contains: a point is not any letter": ("UxSx", ("U.S.",), CONTAINS, WRONG),
    "contains and text together": ("he leads the US of today", ("U.S.",), LOOSE, RIGHT),
    "an empty alias matches nothing": ("Paris", ("Croatia", ""), CONTAINS, WRONG),
    "an alias of spaces matches nothing": ("Paris is nice", ("Croatia", "  "), CONTAINS, WRONG),
    "an alias that is empty after normalization": ("Paris!?", ("Croatia", "?!"), LOOSE, WRONG),
    "an empty alias does not equal an empty answer": ("", ("Croatia", ""), EXACT, WRONG),
}  # fmt: skip

# continuations of "Ellie Kemper is a citizen of"
CLOZES = {
    "cloze: the name, then more": (" Croatia, and she lives there", CROATIA, EXACT, RIGHT),
    "cloze: nothing but the name": (" Croatia", CROATIA, EXACT, RIGHT),
    "cloze: an alias first": (" HR and", CROATIA, EXACT, RIGHT),
    "cloze: a longer word is another word": (" Croatiania", CROATIA, EXACT, WRONG),
    "cloze: the name must come first": (" the old Croatia", CROATIA, EXACT, WRONG),
    "cloze: case matters": (" croatia", CROATIA, EXACT, WRONG),
    "cloze: case is folded with normalize=case": (" croatia and", CROATIA, CASE, RIGHT),
    "cloze: an article is dropped with normalize=text": (" the Croatia of today", CROATIA, TEXT, RIGHT),
    "cloze: a compound is another word with normalize=text": (" Guinea-Bissau", ("Guinea",), TEXT, WRONG),
    "cloze: a longer number is another one with normalize=text": (" 5,000 people", ("5",), TEXT, WRONG),
    "cloze exact: more text is wrong": (" Croatia, and", CROATIA, {"cloze": "exact"}, WRONG),
    "cloze contains: anywhere": (" the old Croatia", CROATIA, {"cloze": "contains"}, RIGHT),
    "cloze: the option match has no effect": (" the old Croatia", CROATIA, CONTAINS, WRONG),
    "cloze: empty continuation": ("", CROATIA, EXACT, WRONG),
    "cloze: a negation is a continuation too": (" not Croatia", CROATIA, EXACT, WRONG),
}  # fmt: skip


def entity(*names: str, key: str | None = None) -> Entity:
    return Entity(label=names[0], aliases=names[1:], id=key)


def ask(gold: Gold, pre_edit: Gold | None = None, form: str = "question") -> Query:
    text = "Is Croatia, HR or the U.S. the country of Ellie Kemper?" if form == "question" else "She is a citizen of"
    return Query(id="q", texts=(text,), gold=gold, pre_edit=pre_edit, form=form)


def verdict(answer: str, query: Query, **options: str) -> Verdict:
    return Alias(config=AliasConfig(**options)).judge(None, [Item(query=query, reply=Answer(text=answer))])[0].verdict


@pytest.mark.parametrize(("answer", "names", "options", "expected"), QUESTIONS.values(), ids=QUESTIONS)
def test_answer_to_a_question(answer, names, options, expected) -> None:
    assert verdict(answer, ask(Gold(entities=(entity(*names),))), **options) is expected


@pytest.mark.parametrize(("answer", "names", "options", "expected"), CLOZES.values(), ids=CLOZES)
def test_continuation_of_a_cloze(answer, names, options, expected) -> None:
    assert verdict(answer, ask(Gold(entities=(entity(*names),)), form="cloze"), **options) is expected


A, B, C = entity("Ann", "Annie"), entity("Bob"), entity("Cleo")
SETS = {
    "all: every member, commas": ("Ann, Bob, Cleo", "all", EXACT, RIGHT),
    "all: any order, and": ("Cleo, Ann and Bob", "all", EXACT, RIGHT),
    "all: serial comma, full stop": ("Bob, Annie, and Cleo.", "all", EXACT, RIGHT),
    "all: lines": ("Ann\nBob\nCleo", "all", EXACT, RIGHT),
    "all: one is missing": ("Ann, Bob", "all", EXACT, WRONG),
    "all: an alias does not count for a second member": ("Ann, Annie, Bob", "all", EXACT, WRONG),
    "all, exact: one too many": ("Ann, Bob, Cleo, Dan", "all", EXACT, WRONG),
    "all, contains: another name is ignored": ("Ann, Bob, Cleo, Dan", "all", CONTAINS, RIGHT),
    "all, contains: inside sentences": ("It was Bob. Then Ann came with Cleo", "all", CONTAINS, RIGHT),
    "any: one is enough": ("Bob", "any", EXACT, RIGHT),
    "any: two are fine": ("Bob and Ann", "any", EXACT, RIGHT),
    "any: none of them": ("Dan", "any", EXACT, WRONG),
    "any, exact: another name is wrong": ("Bob and Dan", "any", EXACT, WRONG),
    "any, contains: another name is ignored": ("Bob and Dan", "any", CONTAINS, RIGHT),
    "ordered: in order": ("Ann, Bob, Cleo", "ordered", EXACT, RIGHT),
    "ordered: out of order": ("Bob, Ann, Cleo", "ordered", EXACT, WRONG),
    "ordered: one is missing": ("Ann, Cleo", "ordered", EXACT, WRONG),
    "ordered, contains": ("first Ann, later Bob, then Cleo", "ordered", CONTAINS, RIGHT),
    "ordered, contains: first mentions count": ("Bob, Ann, Cleo, Bob", "ordered", CONTAINS, WRONG),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "require", "options", "expected"), SETS.values(), ids=SETS)
def test_answer_with_several_entities(answer, require, options, expected) -> None:
    assert verdict(answer, ask(Gold(entities=(A, B, C), require=require)), **options) is expected


NUMBERS = {
    "digits": ("1234", EXACT, RIGHT),
    "thousands separator": ("1,234", EXACT, RIGHT),
    "decimal zeros": ("1234.0", EXACT, RIGHT),
    "full stop": ("1234.", EXACT, RIGHT),
    "another number that begins alike": ("12345", EXACT, WRONG),
    "a fraction more": ("1234.5", EXACT, WRONG),
    "negative": ("-1234", EXACT, WRONG),
    "exact: a unit is more text": ("1234 km", EXACT, WRONG),
    "contains: a unit is fine": ("about 1,234 km", CONTAINS, RIGHT),
    "contains: not inside a longer number": ("it is 51234", CONTAINS, WRONG),
    "text does not take the point out of a number": ("123.4", TEXT, WRONG),
    "no number": ("many", CONTAINS, WRONG),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "options", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_number(answer, options, expected) -> None:
    assert verdict(answer, ask(Gold(entities=(entity("1,234"),), require="number")), **options) is expected


MOONS = ("21", "twenty-one", "21 moons", "XXI")
ALIASES = {
    "its value": ("21", EXACT, RIGHT),
    "an alias in words": ("twenty-one", EXACT, RIGHT),
    "an alias in words, with a space": ("twenty one.", EXACT, RIGHT),
    "an alias with a unit": ("21 moons", EXACT, RIGHT),
    "an alias in another notation": ("XXI", EXACT, RIGHT),
    "exact: more text is wrong": ("21 moons of ice", EXACT, WRONG),
    "exact: case matters as for names": ("21 Moons", EXACT, WRONG),
    "case: case is folded": ("21 Moons", CASE, RIGHT),
    "a number in words, in any case": ("Twenty-One", EXACT, RIGHT),
    "contains: an alias in a sentence": ("It has twenty-one of them", CONTAINS, RIGHT),
    "contains: not inside a number in digits": ("It has 121 moons", CONTAINS, WRONG),
    "contains: not behind thousands": ("It has 1,121 moons", CONTAINS, WRONG),
    "contains: not behind a point": ("It has 3.21 moons", CONTAINS, WRONG),
    "contains: not behind a bare point": ("It has .21 moons", CONTAINS, WRONG),
    "contains: not behind a minus": ("It has -21 moons", CONTAINS, WRONG),
    "contains: not inside a number in words": ("one hundred and twenty-one moons", CONTAINS, WRONG),
    "contains: not before a scale": ("twenty-one thousand moons", CONTAINS, WRONG),
    "contains: not before a scale in digits": ("21 million moons", CONTAINS, WRONG),
    "text: not behind thousands": ("It has 1,121 moons", LOOSE, WRONG),
    "text: not behind a point": ("It has 3.21 moons", LOOSE, WRONG),
    "text: not behind a minus": ("It has -21 moons", LOOSE, WRONG),
    "text: not inside a number in words": ("one hundred twenty-one moons", LOOSE, WRONG),
    "substring: not inside a number either": ("It has 121 moons", {"match": "substring"}, WRONG),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "options", "expected"), ALIASES.values(), ids=ALIASES)
def test_aliases_of_a_number(answer, options, expected) -> None:
    assert verdict(answer, ask(Gold(entities=(entity(*MOONS),), require="number")), **options) is expected


def test_cloze_may_begin_with_an_alias_of_a_number() -> None:
    moons = ask(Gold(entities=(entity(*MOONS),), require="number"), form="cloze")
    assert verdict(" twenty-one, of which nine are small", moons) is RIGHT
    assert verdict(" twenty-one thousand", moons) is WRONG


@pytest.mark.parametrize("answer", ["twenty-one", "one hundred", "one million", "1 million", "3,1 km", "ninety one"])
def test_number_inside_another_does_not_count(answer) -> None:
    assert verdict(answer, ask(Gold(entities=(entity("1"),), require="number")), **CONTAINS) is WRONG


@pytest.mark.parametrize("answer", ["one or two", "two and one", "the one", "number one.", "1-2", "1 2 3", "one-eyed"])
def test_number_next_to_another_counts(answer) -> None:
    assert verdict(answer, ask(Gold(entities=(entity("1"),), require="number")), **CONTAINS) is RIGHT


WRITTEN = {
    "seventeen": 17, "forty": 40, "ninety-nine": 99, "one hundred": 100, "One hundred and one": 101,
    "two hundred fifty-three": 253, "twelve thousand, ": None, "twelve thousand": 12000, "one million two": 1_000_002,
    "one two": None, "twenty eleven": None, "hundred": None, "zero five": None, "one thousand million": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), WRITTEN.items(), ids=WRITTEN)
def test_value_of_a_number_in_words(text, value) -> None:
    assert number(text) == value


@pytest.mark.parametrize("answer", ["3", "three", "Three.", "3.0", "03"])
def test_small_number_in_words(answer) -> None:
    assert verdict(answer, ask(Gold(entities=(entity("3"),), require="number"))) is RIGHT
