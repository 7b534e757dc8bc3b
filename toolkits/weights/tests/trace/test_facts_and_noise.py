"""Tokens of the subject, their corruption, and known facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ke_core.plugin import BadConfig
from ke_plugin_hf.testing import tiny_model, tiny_tokenizer
from ke_weights.modules import find_parts
from ke_weights.trace.facts import TraceFact, read_facts, tokens_of
from ke_weights.trace.noise import Noise, check_rule, resolve_noise
from ke_weights.trace.runs import clean_answer
from ke_weights.trace.settings import TraceSettings
from ke_weights.trace.tracer import OTHERWISE, TOO_LONG, UNSURE, Tracer


def fact(prompt: str, subject: str, attribute: str = "x") -> TraceFact:
    return TraceFact(id="1", prompt=prompt, subject=subject, attribute=attribute)


def walked(tokenizer: Any, ids: tuple[int, ...], subject: str) -> tuple[int, int]:
    """The published rule: decode each token separately and add the lengths."""
    pieces = [tokenizer.decode([token], skip_special_tokens=True) for token in ids]
    start = "".join(pieces).index(subject)
    end, ends = start + len(subject), np.cumsum([len(piece) for piece in pieces])
    return int(np.argmax(ends > start)), int(np.argmax(ends >= end)) + 1


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize(
    ("prompt", "subject"),
    [
        ("The mother tongue of Danielle Darrieux is", "Danielle Darrieux"),
        ("France is", "France"),
        ("The capital of Italy", "Italy"),
    ],
)
def test_subject_tokens_equal_the_published_rule(prompt: str, subject: str, *, bos: bool) -> None:
    """A space before the subject belongs to its first token, BOS never does."""
    tokenizer = tiny_tokenizer(bos=bos)
    ids, found = tokens_of(tokenizer, fact(prompt, subject))
    assert found == walked(tokenizer, ids, subject)
    assert (ids[0] == tokenizer.bos_token_id) == bos
    assert tokenizer.decode(ids[slice(*found)]).strip() == subject


def test_accent_split_over_two_tokens_does_not_shift_the_subject() -> None:
    tokenizer = tiny_tokenizer()
    ids, (start, end) = tokens_of(tokenizer, fact("The é of Zoë is é", "Zoë"))
    assert tokenizer.decode(ids[start:end]).strip() == "Zoë"
    assert "�" in tokenizer.decode([ids[end - 1]])


def test_noise_is_the_published_stream() -> None:
    drawn = Noise(rule="0.1", sigma=0.1, uniform=False, seed=1).sample(10, 3, 8)
    expected = 0.1 * np.random.RandomState(1).randn(10, 3, 8)
    assert np.array_equal(drawn.numpy(), expected)


@pytest.mark.parametrize(("uniform", "variance"), [(False, 0.09), (True, 0.03)])
def test_noise_has_the_variance_of_its_rule(*, uniform: bool, variance: float) -> None:
    drawn = Noise(rule="", sigma=0.3, uniform=uniform, seed=1).sample(10, 10, 1000)
    assert float(drawn.var()) == pytest.approx(variance, rel=0.05)
    assert not uniform or float(drawn.abs().max()) <= 0.3


def test_s3_is_three_standard_deviations_of_the_subject_embeddings() -> None:
    model = tiny_model("llama", bos=True)
    subjects = ["France", "Danielle Darrieux", "France"]
    noise = resolve_noise("s3", 1, find_parts(model.module), model.tokenizer, subjects)
    ids = [token for name in subjects for token in model.tokenizer(name, add_special_tokens=False)["input_ids"]]
    weight = model.module.get_input_embeddings().weight
    assert noise.sigma == pytest.approx(3 * float(weight[ids].double().std()), rel=1e-12)


@pytest.mark.parametrize(("rule", "kind", "size"), [("s3", "s", 3.0), ("0.025", "", 0.025), ("u0.1", "u", 0.1)])
def test_noise_rules_are_parsed(rule: str, kind: str, size: float) -> None:
    assert check_rule(rule) == (kind, size)


@pytest.mark.parametrize("rule", ["", "m", "t3", "s", "-1", "sx", "1e400x"])
def test_invalid_noise_rules_are_refused(rule: str) -> None:
    with pytest.raises(BadConfig, match="not a noise rule"):
        check_rule(rule)


def tracer(**given: Any) -> Tracer:
    settings = TraceSettings(kinds=("states",), sever=(), samples=2, tokens="subject-last", **given)
    return Tracer.open(tiny_model("gpt2"), settings, ["France"])


def test_facts_with_another_answer_are_skipped() -> None:
    for which in ("published", "first-token"):
        skipped = tracer(filter=which).trace(fact("The capital of France is", "France", "Nowhere"))
        assert (skipped.skipped, skipped.correct_prediction, skipped.scores) == (OTHERWISE, False, {})
        assert skipped.answer
        assert skipped.low_score is None


def test_filter_first_token_requires_a_probable_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    from ke_weights.trace import tracer as module

    prompt = "The capital of France is"
    opened = tracer(filter="first-token")
    said, _sure = clean_answer(opened.modules, opened.model.encode(prompt))
    longer = fact(prompt, "France", f"{opened.model.decode([said]).strip()} and more")
    monkeypatch.setattr(module, "target_ids", lambda *_: (said, 5, 6))
    monkeypatch.setattr(module, "SURE", 0.9)
    unsure = opened.trace(longer)
    assert (unsure.skipped, unsure.correct_prediction) == (UNSURE, True)
    monkeypatch.setattr(module, "SURE", 0.0)
    assert not opened.trace(longer).skipped
    assert tracer(filter="published").trace(longer).skipped == OTHERWISE


def test_prompt_longer_than_the_context_is_skipped() -> None:
    assert tracer().trace(fact(f"France {'is ' * 1200}", "France")).skipped == TOO_LONG


def test_published_file_is_read(ke_data_dir: Any) -> None:
    found = read_facts(ke_data_dir / "known_facts" / "known_1000.json")
    assert len(found.facts) == 1209
    assert found.facts[0] == TraceFact(
        id="0", prompt="Vinson Massif is located in the continent of", subject="Vinson Massif", attribute="Antarctica"
    )
