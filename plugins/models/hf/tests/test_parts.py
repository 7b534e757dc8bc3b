"""Rows that are read in parts (guessed tokens, prefixes that some of them share) get the results of whole passes."""

import pytest
import torch

from ke_core.plugin import Generate, Score
from ke_plugin_hf.decoding import drafts, inner
from ke_plugin_hf.decoding.drafts import LENGTHS, Drafter, best_length
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.decoding.inner import inner_groups
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.decoding.runner import LocalRunner
from ke_plugin_hf.testing import FAMILIES, tiny_model

CPU = torch.device("cpu")
HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 6
RELATIONS = ["The capital of Italy is Rome. The capital of", "Dante wrote in Italian. The language that is spoken in"]
PROMPTS = [f"{HEAD}{relation * 3} {place} is" for relation in RELATIONS for place in ("Peru", "France", "Mali")]


@pytest.fixture
def whole(monkeypatch):
    """Switches to whole passes."""

    def switch():
        monkeypatch.setattr(LocalRunner, "in_parts", lambda _self, _forward: False)

    return switch


def test_a_guess_is_what_followed_the_last_tokens_before():
    drafter = Drafter()
    assert drafter.guess([1, 2, 3, 4, 5, 1, 2, 3], 2) == [4, 5]
    assert drafter.guess([1, 2, 3, 4, 5, 1, 2, 3, 9], 2) == []
    assert drafter.guess([1, 2, 3, 4, 5, 1, 2, 3, 9, 1, 2, 3], 4) == [9, 1, 2, 3]  # the last time, not the first
    assert Drafter().guess([7, 8, 7, 8, 7], 6) == [8, 7, 8, 7, 8, 7]  # continued in itself
    assert Drafter().guess([1, 2], 6) == []


def test_the_length_of_guesses_depends_on_rows_and_on_what_was_right():
    def length(rows, guessed, right):
        drafters = [Drafter() for _row in range(rows)]
        for drafter in drafters:
            drafter.checked(guessed, right)
            drafter.checked(guessed, right)
        return best_length(drafters, [[0] * LENGTHS[-1]] * rows, CPU)

    assert length(1, 8, 8) == LENGTHS[-1]
    assert length(1, 8, 0) <= 2
    assert length(8, 8, 8) > 0
    assert length(100, 8, 0) == 0
    assert best_length([Drafter()] * 4, [[]] * 4, CPU) == 0


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("family", FAMILIES)
def test_texts_with_guesses_equal_those_without(monkeypatch, whole, family, temperature):
    monkeypatch.setitem(drafts.FIXED, "cpu", 10**6)  # guess whenever there is something to guess
    requests = [
        Generate(prompt=prompt, max_tokens=12 + 9 * at, temperature=temperature, seed=at)
        for at, prompt in enumerate([*PROMPTS[:3], "aa aa aa aa aa"])
    ]
    found = tiny_model(family).generate(requests)
    whole()
    assert tiny_model(family).generate(requests) == found


def test_repeated_text_takes_fewer_passes(whole):
    model = tiny_model("llama")
    for layer in model.module.model.layers:  # without them, a token depends on the last one only, so texts repeat
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    some = [Generate(prompt=HEAD + letter, max_tokens=150) for letter in "abcdefghijklmnop"]
    requests = [one for one, text in zip(some, model.generate(some), strict=True) if text.finish == "length"][:2]
    texts, passes = [], []
    for _way in range(2):
        before = COUNTER.now().passes
        texts.append(model.generate(requests))
        passes.append(COUNTER.now().passes - before)
        whole()
    assert texts[0] == texts[1]
    assert 2 * passes[0] < passes[1]


def test_a_stop_string_inside_a_guess_ends_the_text(monkeypatch, whole):
    monkeypatch.setitem(drafts.FIXED, "cpu", 10**6)
    text = tiny_model("llama").generate([Generate(prompt=PROMPTS[0], max_tokens=60)])[0].text
    stops = sorted({text[at : at + 3] for at in range(len(text) - 3)}, key=text.index)[-12:]
    requests = [Generate(prompt=PROMPTS[0], max_tokens=60, stop=(stop,)) for stop in stops]
    found = tiny_model("llama").generate(requests)
    whole()
    assert tiny_model("llama").generate(requests) == found


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_guesses_do_not_exceed_the_context(monkeypatch, whole, family):
    """Rows that are padded to the guesses of another row have no position left."""
    monkeypatch.setitem(drafts.FIXED, "cpu", 10**6)
    model = tiny_model(family)
    long = "Misery is by " * (model.context // 8 - 2)
    room = model.context - len(model.encode(long))
    requests = [
        Generate(prompt=long, max_tokens=room),
        *(Generate(prompt="aa aa aa aa aa aa aa" + "aa" * at, max_tokens=room) for at in range(3)),
    ]
    found = model.generate(requests)
    whole()
    assert tiny_model(family).generate(requests) == found


def test_rows_forget_different_numbers_of_tokens():
    model = tiny_model("llama")
    forward = Forward(model.module, "shared")
    ids = [model.encode(prompt) for prompt in PROMPTS[:3]]
    head = forward.prefix(ids[0][:20])
    _logits, state = forward.prefill(head, [row[20:] for row in ids])
    forward.step(state, [[5, 6, 7], [5, 6, 7], [5, 6, 7]])
    state.forget([2, 0, 1])
    logits = forward.step(state, [[9]] * 3)
    for row, more, found in zip(ids, ([5], [5, 6, 7], [5, 6]), logits[:, -1], strict=True):
        with torch.no_grad():
            want = model.module(input_ids=torch.tensor([[*row, *more, 9]])).logits[0, -1]
        torch.testing.assert_close(found, want, atol=1e-4, rtol=0)


def test_inner_groups_are_used_if_they_save_a_pass():
    long, other = list(range(100)), list(range(200, 300))
    rows = [[*long, 1], [*other, 1], [*long, 2], [*other, 2], [9]]
    assert {(group.rows, group.prefix) for group in inner_groups(rows, CPU)} == {
        ((0, 2), 100),
        ((1, 3), 100),
        ((4,), 0),
    }
    assert {group.prefix for group in inner_groups([[1, 2, 3, 4, 5], [1, 2, 3, 4, 6]], CPU)} == {0}


@pytest.mark.parametrize("family", FAMILIES)
def test_results_with_inner_prefixes_equal_those_without(monkeypatch, whole, family):
    monkeypatch.setitem(inner.PASS, "cpu", 1)
    scores = [Score(prompt=prompt, continuations=(" Lima and Paris", " Rome", " Lima or")) for prompt in PROMPTS]
    texts = [Generate(prompt=prompt, max_tokens=8) for prompt in PROMPTS]

    def answers():
        model = tiny_model(family)
        model.score(scores[:1])  # tests the backends
        before = COUNTER.now().tokens
        scored, written = model.score(scores), model.generate(texts)
        return scored, written, COUNTER.now().tokens - before

    scored, written, tokens = answers()
    whole()
    want_scored, want_written, more = answers()
    assert written == want_written
    assert tokens < more
    for one, want in zip(scored, want_scored, strict=True):
        assert one.logprobs == pytest.approx(want.logprobs, abs=1e-4)
        assert (one.tokens, one.matches) == (want.tokens, want.matches)


def test_without_memory_for_inner_prefixes_rows_are_read_completely(monkeypatch):
    monkeypatch.setitem(inner.PASS, "cpu", 1)
    scores = [Score(prompt=prompt, continuations=(" Lima and Paris", " Rome")) for prompt in PROMPTS]
    want = tiny_model("llama").score(scores)
    model = tiny_model("llama")
    model.score(scores[:1])
    original, failed = Forward.prefill, []

    def cramped(self, prefix, rows, **more):
        if "prompts" not in more:
            failed.append(len(rows))
            raise MemoryError
        return original(self, prefix, rows, **more)

    monkeypatch.setattr(Forward, "prefill", cramped)
    for one, other in zip(model.score(scores), want, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert failed
