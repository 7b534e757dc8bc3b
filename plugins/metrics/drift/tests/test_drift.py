"""Perplexity and divergence against numbers computed manually, and the passages."""

from __future__ import annotations

import math

import pytest

from ke_core.plugin import BadConfig, Failure, ModelRecord, Scored
from ke_plugin_drift import DriftConfig, requests
from ke_plugin_drift.metric import NOT_ASKED, Drift, divergence
from ke_plugin_drift.passages import NEXT
from ke_testing.metric import ModelMetricContract

A, B, AHEAD = "passage-1", "passage-2", "next-1"


def ahead(*shares: float) -> Scored:
    """Return the probabilities of some words; the rest to 1 belongs to all others."""
    return Scored(logprobs=tuple(math.log(share) for share in shares), tokens=(1,) * len(shares))


BEFORE = {  # 2 nats a token
    A: Scored(logprobs=(-6.0,), tokens=(2,)),
    B: Scored(logprobs=(-2.0,), tokens=(2,)),
    AHEAD: ahead(0.5, 0.25),
}
AFTER = {  # 3 nats a token
    A: Scored(logprobs=(-8.0,), tokens=(2,)),
    B: Scored(logprobs=(-4.0,), tokens=(2,)),
    AHEAD: ahead(0.25, 0.25),
}


def edited(**changes) -> ModelRecord:
    return ModelRecord(**{"batch": "batch-1", "edits": 1, "replies": AFTER, "unedited": BEFORE, **changes})


def values(record: ModelRecord) -> dict[str, float | None]:
    return {value.aspect: value.value for value in Drift().model_values(record)}


class TestDrift(ModelMetricContract):
    name = "drift"

    @pytest.fixture
    def record(self) -> ModelRecord:
        return edited()


def test_perplexity_weights_tokens_equally() -> None:
    found = values(edited())
    assert (found["perplexity"], found["perplexity-ratio"]) == pytest.approx((math.e**3, math.e))
    uneven = {A: Scored(logprobs=(-9.0,), tokens=(3,)), B: Scored(logprobs=(-1.0,), tokens=(1,))}
    assert values(edited(replies=uneven))["perplexity"] == pytest.approx(math.e ** (10 / 4))


def test_unedited_model_has_perplexity_only() -> None:
    (value,) = Drift().model_values(ModelRecord(batch="base", phase="before", replies=BEFORE, unedited=BEFORE))
    assert (value.aspect, value.phase, value.value) == ("perplexity", "before", pytest.approx(math.e**2))


def test_missing_passage_gives_missing_values() -> None:
    words = Failure(error="NoLikelihood", message="it answers in words")
    silent = {**AFTER, B: words, AHEAD: words}
    for record, why in (
        (edited(replies=silent), "it answers in words"),
        (edited(replies={}), NOT_ASKED),
        (edited(skipped="no edit of the batch can be made"), "no edit of the batch can be made"),
    ):
        found = list(Drift().model_values(record))
        assert [(value.value, value.skipped_because) for value in found] == [(None, why)] * 3
    huge = values(edited(replies={**AFTER, A: Scored(logprobs=(-1e6,), tokens=(1,))}))
    assert (huge["perplexity"], huge["perplexity-ratio"]) == (None, None)


def test_divergence_of_known_distributions() -> None:
    """0.5 ln 2 + 0.25 ln 1 + 0.25 ln(0.25 / 0.5) = 0.25 ln 2; with an unchanged passage, half of it."""
    assert values(edited())["next-word-kl"] == pytest.approx(0.25 * math.log(2))
    two, other = {**BEFORE, "next-2": ahead(0.1, 0.2)}, {**AFTER, "next-2": ahead(0.1, 0.2)}
    assert divergence(two, other) == pytest.approx(0.125 * math.log(2))
    assert divergence(BEFORE, BEFORE) == 0
    assert divergence({AHEAD: ahead(0.9, 0.1)}, {AHEAD: ahead(0.1, 0.9)}) == pytest.approx(0.8 * math.log(9))


def test_missing_next_word_requests_have_a_reason() -> None:
    old = {name: reply for name, reply in AFTER.items() if name != AHEAD}
    found = {value.aspect: value for value in Drift().model_values(edited(replies=old))}
    assert (found["next-word-kl"].value, found["next-word-kl"].skipped_because) == (None, NOT_ASKED)
    assert found["perplexity"].value is not None


def test_no_frequent_word_is_a_prefix_of_another() -> None:
    assert len(set(NEXT)) == len(NEXT) == 73
    assert not [(one, other) for one in NEXT for other in NEXT if one != other and other.startswith(one)]


def test_twenty_passages_join_their_prompt_with_one_space() -> None:
    every = requests(DriftConfig())
    found = [ask for ask in every if ask.query.startswith("passage-")]
    assert len(found) == len(every) - len(found) == 20
    for ask in found:
        (rest,) = ask.continuations
        assert len(ask.prompt.split()) == 3
        assert rest[0] == " " != rest[1]
        assert 30 <= len(rest.split()) <= 60


def test_text_file_has_one_passage_per_line(tmp_path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("one two three four five\n\n  six seven eight nine\n")
    found = requests(DriftConfig(text=str(file)))
    assert [(ask.query, ask.prompt, ask.continuations[0]) for ask in found] == [
        ("passage-1", "one two three", " four five"),
        ("next-1", "one two three", " the"),
        ("passage-2", "six seven eight", " nine"),
        ("next-2", "six seven eight", " the"),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "contains no passage"), (b"one two three\n", "has 3 words"), (b"\xff\xfe", "cannot read"), (None, "cannot")],
)
def test_invalid_text_file_is_named(tmp_path, content, says) -> None:
    file = tmp_path / "text.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadConfig, match=rf"drift\.text: .*{says}"):
        requests(DriftConfig(text=str(file)))
