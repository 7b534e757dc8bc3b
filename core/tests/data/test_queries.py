"""What is said of a query and of a case's record, for every report and metric alike."""

from __future__ import annotations

import pytest

from ke_core.spec.codec import from_json, to_json
from ke_core.spec.facts import Entity, continued
from ke_core.spec.observed import observed
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_core.spec.requests import Likelihood, Score
from ke_core.spec.results import Answer, CaseRecord, Judgment, Outcome, Scored, Verdict

NAMES = (Entity(label="Rome"), Entity(label="Oslo"))


@pytest.mark.parametrize(
    ("require", "words"), [("all", "ROME and OSLO"), ("any", "ROME or OSLO"), ("ordered", "ROME, then OSLO")]
)
def test_gold_as_text_joins_its_entities_by_and_or_or(require, words) -> None:
    assert Gold(entities=NAMES, require=require).words(lambda entity: entity.label.upper()) == words
    assert Gold(require=require).words(str) == "nothing"


def test_styles_of_a_probe_are_those_of_its_queries() -> None:
    one, other, third = (Query(id=name, texts=("?",), gold=Gold(entities=NAMES)) for name in ("one", "other", "third"))
    probe, unasked = Probe(id="p", aspect="a", queries=(one, other)), Probe(id="q", aspect="a", queries=(third,))
    outcome = Outcome(reply=Answer(text="Rome"), judgment=Judgment(verdict=Verdict.RIGHT))
    places = (("after", "cot", "other"), ("after", "direct", "one"), ("before", "own", "one"), ("after", "own", "none"))
    record = CaseRecord(case=Case(id="1", probes=(probe, unasked)), batch="1", outcomes=dict.fromkeys(places, outcome))
    assert record.styles_of(probe, "after") == ("cot", "direct")
    assert record.styles_of(probe, "before") == ("own",)
    assert record.styles_of(unasked, "after") == ()


def query(**changes) -> Query:
    return Query(**{"id": "q", "texts": ("It is in",), "form": "cloze", "gold": Gold(entities=NAMES[:1]), **changes})


def test_observed_needs_a_phase() -> None:
    record = CaseRecord(case=Case(id="1", probes=(Probe(id="p", aspect="a", queries=(query(),)),)), batch="1")
    assert len(list(observed(record, "after"))) == 1
    with pytest.raises(ValueError, match="needs at least one phase"):
        observed(record)


def test_continuation_begins_with_one_space_unless_it_is_a_whole_text() -> None:
    for text in ("Rome", "  Rome", " "):
        with pytest.raises(ValueError, match="exactly one space"):
            query(continuations=(text,))
    assert query(continuations=("巴黎",)).continuations == ("巴黎",)
    whole = query(texts=("",), continuations=("Rome was not built in a day.\nNor was Oslo.",))
    assert whole.is_whole_text
    assert not query(texts=("",), contexts=("a",), continuations=(" b",)).is_whole_text


@pytest.mark.parametrize(
    "prompt",
    [
        "The capital is", "Who wrote it?", "The title is \u201c", "A list:\n", "Q: 谁写了这本书\uff1f\nA:",
        "Q: 谁写了?\nA:\n", "谁写了这本书\uff1f", "书名\uff1a", "谁领导iPhone\uff1f",
        "この本を書いたのは誰ですか\uff1f", "著者は", "เมืองหลวงของฝรั่งเศสคือ",
    ],
)  # fmt: skip
def test_every_output_of_continued_is_a_continuation(prompt) -> None:
    targets = (
        "Paris", "Ångström", "one\ntwo", "1912", "1912年", "《红楼梦》", "《X档案》", "X档案", "\u201cHamlet\u201d",
        "(Paris)", "[1]", "-5", "「雪国」", "カフカ", "ปารีส", "(ปารีส)", "서울",
    )  # fmt: skip
    made = tuple(continued(prompt, target) for target in targets)
    assert query(texts=(prompt,), continuations=made).continuations == made
    assert query(texts=("It is in",), contexts=(prompt,) * len(made), continuations=made).continuations == made


def test_continuation_without_a_space_is_refused_after_another_prompt() -> None:
    for text in ("1912", "《红楼梦》", "Rome", ""):
        with pytest.raises(ValueError, match="exactly one space"):
            query(continuations=(text,))
    for text in ("Rome", "\n", ""):
        with pytest.raises(ValueError, match="exactly one space"):
            query(texts=("谁写了这本书\uff1f",), continuations=(text,))
    with pytest.raises(ValueError, match="exactly one space"):
        query(contexts=("A list:\n", "It is in"), continuations=("Rome", "Rome"))


def test_each_continuation_has_one_context() -> None:
    assert query(contexts=("a", "b"), continuations=(" x", " x")).contexts == ("a", "b")
    with pytest.raises(ValueError, match="1 given for 2 continuations"):
        query(contexts=("a",), continuations=(" x", " y"))


def test_options_with_equal_continuations_are_labeled_by_their_contexts() -> None:
    assert query(continuations=(" Rome", " Oslo")).options == ("Rome", "Oslo")
    assert query(contexts=("Rome", "Oslo"), continuations=(" is big", " is big")).options == ("Rome", "Oslo")
    assert query(contexts=("In", "To"), continuations=(" Rome", " Oslo")).options == ("Rome", "Oslo")


@pytest.mark.parametrize("kind", [Score, Likelihood])
def test_request_has_one_prompt_or_one_per_continuation(kind) -> None:
    own = {"id": "l", "case": "1"} if kind is Likelihood else {}
    assert kind(prompts=("a", "b"), continuations=(" x", " y"), **own).prompts == ("a", "b")
    with pytest.raises(ValueError, match="1 given for 2 continuations"):
        kind(prompts=("a",), continuations=(" x", " y"), **own)
    with pytest.raises(ValueError, match="cannot both be given"):
        kind(prompt="p", prompts=("a",), continuations=(" x",), **own)


def test_json_of_a_scored_reply_has_matches_only_if_they_are_known() -> None:
    told = Scored(logprobs=(-1.0, -2.0, -3.0), tokens=(1, 1, 1), matches=(1, None, 0))
    assert from_json(to_json(told), Scored, of="it") == told
    assert told.is_greedy == (True, None, False)
    silent = Scored(logprobs=(-1.0, -2.0), tokens=(1, 1))
    assert silent.is_greedy == (None, None)
    assert set(to_json(silent)) == {"logprobs", "tokens"}
    assert from_json({"logprobs": [-1.0], "tokens": [1]}, Scored, of="it").is_greedy == (None,)
