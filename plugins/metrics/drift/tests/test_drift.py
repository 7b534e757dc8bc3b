"""Perplexities worked out by hand, the passages, and the contract."""

from __future__ import annotations

import math

import pytest

from ke_core.plugin import BadConfig, Failure, ModelRecord, Scored
from ke_core.testing.metric import ModelMetricContract
from ke_plugin_drift import DriftConfig, asks
from ke_plugin_drift.metric import NOT_ASKED, Drift

BEFORE = {"a": Scored(logprobs=(-6.0,), tokens=(2,)), "b": Scored(logprobs=(-2.0,), tokens=(2,))}  # 2 nats a token
AFTER = {"a": Scored(logprobs=(-8.0,), tokens=(2,)), "b": Scored(logprobs=(-4.0,), tokens=(2,))}  # 3 nats a token


def edited(**changes) -> ModelRecord:
    return ModelRecord(**{"batch": "batch-1", "edits": 1, "replies": AFTER, "unedited": BEFORE, **changes})


def values(record: ModelRecord) -> dict[str, float | None]:
    return {value.aspect: value.value for value in Drift().model_values(record)}


class TestDrift(ModelMetricContract):
    name = "drift"

    @pytest.fixture
    def record(self) -> ModelRecord:
        return edited()


def test_perplexity_weighs_every_token_the_same() -> None:
    assert values(edited()) == pytest.approx({"perplexity": math.e**3, "perplexity-ratio": math.e})
    uneven = {"a": Scored(logprobs=(-9.0,), tokens=(3,)), "b": Scored(logprobs=(-1.0,), tokens=(1,))}
    assert values(edited(replies=uneven))["perplexity"] == pytest.approx(math.e ** (10 / 4))


def test_the_unedited_model_has_a_perplexity_and_no_ratio() -> None:
    (value,) = Drift().model_values(ModelRecord(batch="base", phase="before", replies=BEFORE, unedited=BEFORE))
    assert (value.aspect, value.phase, value.value) == ("perplexity", "before", pytest.approx(math.e**2))


def test_v9_no_number_without_all_passages() -> None:
    silent = {**AFTER, "b": Failure(error="NoLikelihood", message="it answers in words")}
    for record, why in (
        (edited(replies=silent), "it answers in words"),
        (edited(replies={}), NOT_ASKED),
        (edited(skipped="no edit of the batch can be made"), "no edit of the batch can be made"),
        (edited(replies={"a": Scored(logprobs=(-1e6,), tokens=(1,))}), "too large for a number"),
    ):
        found = list(Drift().model_values(record))
        assert [(value.value, value.skipped_because) for value in found] == [(None, why)] * 2


def test_the_passages_are_twenty_and_join_their_prompt_by_one_space() -> None:
    found = asks(DriftConfig())
    assert len(found) == 20
    for ask in found:
        (rest,) = ask.continuations
        assert len(ask.prompt.split()) == 3
        assert rest[0] == " " != rest[1]
        assert 30 <= len(rest.split()) <= 60


def test_a_text_of_ones_own_is_one_passage_a_line(tmp_path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("one two three four five\n\n  six seven eight nine\n")
    found = asks(DriftConfig(text=str(file)))
    assert [(ask.query, ask.prompt, ask.continuations) for ask in found] == [
        ("passage-1", "one two three", (" four five",)),
        ("passage-2", "six seven eight", (" nine",)),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "holds no passage"), (b"one two three\n", "has 3 words"), (b"\xff\xfe", "cannot be read"), (None, "cannot")],
)
def test_a_file_that_holds_no_text_is_named(tmp_path, content, says) -> None:
    file = tmp_path / "text.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadConfig, match=rf"drift\.text: .*{says}"):
        asks(DriftConfig(text=str(file)))
