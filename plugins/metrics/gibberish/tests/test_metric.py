"""Manually labeled texts, and rates."""

from __future__ import annotations

import pytest

from ke_core.plugin import Answer, Case, CaseRecord, Edit, Failure, Probe, Query, Reply, Step, Verdict
from ke_plugin_gibberish.metric import Gibberish
from ke_plugin_gibberish.rules import loops, scripts, symbols
from ke_testing.metric import MetricContract
from ke_testing.records import gold, outcome

LANGUAGE = (
    "Rome",
    "",
    "1,000,000",
    "New York, New York",
    "Bora Bora",
    "the man who knew the man who knew the king",
    "Moscow (Москва)",
    "東京タワー is in Tokyo",
    "Gabriel García Márquez, Øre, Łódź",
    "www.example.org",
    "C++",
    "1984; 1985; 1986",
    "100000000000",
    "H₂O and CO₂",
    "5 \u03bcm, 10 k\u03a9",
    "\u0394G = \u0394H - T\u0394S, TNF\u03b1",
    "人々は佐々木",
    "二〇二四年",
    "日本の首都は東京です",
    "हिन्दी भाषा",
    "Yes, yes, yes.",
)
CIRCLES = (
    "the the the the the the",
    "RomeRomeRomeRome",
    "aaaaaaaaaaaaaaaa",
    "of Italy and of Italy and of Italy and of Italy and",
    "He was born in Rome. " * 4,
    "She went home. He was born in Rome and died in Rome. " + "He was born in Rome and died in Rome, too. " * 3,
)

MIXED = ("R\u043eme", "capital столица 首都", "the العاصمة of 东京", "abcд")
SIGNS = ("!!!!!!!!!!", "the \ufffd\ufffd", "{}{}<>///===a", ") ) ) ( ( ( ( (")


class TestGibberish(MetricContract):
    name = "gibberish"


@pytest.mark.parametrize("text", LANGUAGE)
def test_language_matches_no_rule(text) -> None:
    assert [rule(text) for rule in (loops, scripts, symbols)] == [False] * 3


@pytest.mark.parametrize("text", CIRCLES)
def test_repetition_is_a_loop(text) -> None:
    assert loops(text)


@pytest.mark.parametrize("text", MIXED)
def test_mixed_scripts(text) -> None:
    assert scripts(text)


@pytest.mark.parametrize("text", SIGNS)
def test_text_of_symbols(text) -> None:
    assert symbols(text)


def test_long_text_is_fast() -> None:
    """The rules read a limited part of the output of a collapsed model."""
    assert not loops("".join(chr(97 + (n * n + n // 7) % 26) for n in range(50_000)))


ASKED = tuple(Query(id=f"q{n}", texts=("?",), gold=gold("Rome")) for n in range(4))
CASE = Case(
    id="1",
    edits=(Edit(id="e", statement="s"),),
    probes=(Probe(id="multi-hop", aspect="multi-hop", queries=ASKED, phase="both"),),
)


def record(*replies: Reply, **rest) -> CaseRecord:
    outcomes = {
        ("after", "direct", query.id): outcome(reply, Verdict.WRONG)
        for query, reply in zip(ASKED, replies, strict=False)
    }
    return CaseRecord(case=CASE, batch="0", outcomes=outcomes, **rest)


def mean(one: CaseRecord, aspect: str) -> float:
    found = [v.value for v in Gibberish().values(one) if v.aspect == aspect and v.value is not None]
    return sum(found) / len(found)


def test_rates_of_four_answers() -> None:
    """Of four answers, one is a loop, and one is a loop of symbols."""
    one = record(*(Answer(text=text) for text in ("Rome", "the the the the the", "!!!!!!!!", "")))
    assert {aspect: mean(one, aspect) for aspect in ("gibberish", "loops", "scripts", "symbols")} == {
        "gibberish": 0.5,
        "loops": 0.5,
        "scripts": 0,
        "symbols": 0.25,
    }


def test_rules_read_raw_output_unless_there_are_steps() -> None:
    """Raw output with steps contains retrieved text."""
    raw = "Rome, Rome, Rome, Rome, Rome, Rome"
    steps = (Step(kind="subquestion", text="?"),)
    assert mean(record(Answer(text="Rome", raw=raw)), "gibberish") == 1
    assert mean(record(Answer(text="Rome", raw=raw, steps=steps)), "gibberish") == 0


def test_missing_answer_is_excluded_with_its_reason() -> None:
    gone = Failure(error="ServerGone", message="gone")
    reasons = [v.skipped_because for v in Gibberish().values(record(gone)) if v.phase == "after"]
    assert set(reasons[:4]) == {"there is no text answer: ServerGone"}
    assert set(reasons[4:]) == {"a question has no recorded answer"}
