"""Log-probabilities are those of a whole forward pass over prompt and continuation."""

from weakref import ref

import pytest
import torch

from ke_core.plugin import Generate, ModelUnavailable, Score
from ke_plugin_hf.decoding import memory
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.decoding.scoring import ScoringRow
from ke_plugin_hf.testing import FAMILIES, tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 8


def reference(model, prompt, continuation):
    ids = model.encode(prompt)
    after = model.tokenizer(continuation, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model.module(torch.tensor([[*ids, *after]])).logits[0].float()
    logprobs = torch.log_softmax(logits, -1)
    return sum(float(logprobs[len(ids) - 1 + at, token]) for at, token in enumerate(after)), len(after)


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_a_whole_forward_pass(family, bos):
    model = tiny_model(family, bos=bos)
    requests = [
        Score(prompt=HEAD + "The capital of France is", continuations=(" Paris", " the city of Rome", " Paris")),
        Score(prompt=HEAD + "The mother tongue of Danielle Darrieux is", continuations=(" French",)),
        Score(prompt="Apple", continuations=(" was created in the United States", "")),
    ]
    for request, scored in zip(requests, model.score(requests), strict=True):
        wanted = [reference(model, request.prompt, text) for text in request.continuations]
        assert scored.logprobs == pytest.approx([value for value, _n in wanted], abs=1e-4)
        assert scored.tokens == tuple(n for _value, n in wanted)


def test_scores_do_not_depend_on_the_batch(monkeypatch):
    requests = [Score(prompt=HEAD + "x" * n, continuations=(" Paris", " Rome is a city")) for n in range(9)]
    whole = tiny_model("llama").score(requests)
    model = tiny_model("llama")
    monkeypatch.setitem(memory.CAP, "cpu", 1)
    for one, other in zip(model.score(requests), whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_out_of_memory_halves_the_batch_of_scores_too(monkeypatch):
    requests = [Score(prompt="Who is " + "x" * n, continuations=(" Paris",)) for n in range(9)]
    whole = tiny_model("llama").score(requests)
    model = tiny_model("llama")
    model.score(requests[:1])
    original = Forward.prefill

    def cramped(self, prefix, rows, **more):
        if len(rows) > 2:
            raise MemoryError
        return original(self, prefix, rows, **more)

    monkeypatch.setattr(Forward, "prefill", cramped)
    for one, other in zip(model.score(requests), whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_half_precision_is_summed_in_single():
    model = tiny_model("llama", dtype="bfloat16")
    scored = model.score([Score(prompt="The capital of", continuations=(" France",))])[0]
    value, _count = reference(model, "The capital of", " France")
    assert scored.logprobs[0] == pytest.approx(value, abs=0.2)


def test_a_pass_leaves_nothing_in_memory_for_the_next_or_for_its_retries(monkeypatch):
    model = tiny_model("llama")
    requests = [Score(prompt="Who is " + "x" * n, continuations=(" Paris",)) for n in range(9)]
    whole = model.score(requests)
    original, made = Forward.prefill, []

    def watched(self, prefix, rows, **more):
        assert not [one for one in made if one() is not None]
        if len(rows) > 3 and made:
            raise MemoryError
        logits, state = original(self, prefix, rows, **more)
        made.extend(ref(one) for one in (logits, state))
        return logits, state

    monkeypatch.setattr(Forward, "prefill", watched)
    monkeypatch.setitem(memory.READ, "cpu", 40)
    for one, other in zip(model.score(requests), whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert len(made) > 4
    made.clear()
    model.generate([Generate(prompt=f"{n} " + "x" * 9, max_tokens=1) for n in range(9)])  # reads in passes too
    assert len(made) > 4


def test_a_sum_for_which_memory_runs_out_is_made_again_or_fails_alone(monkeypatch):
    model = tiny_model("llama")
    requests = [Score(prompt="Who is " + "x" * n, continuations=(" Paris",)) for n in range(4)]
    whole = model.score(requests)
    original, failed = ScoringRow.take, []

    def cramped(self, logits):
        if not failed or self.ids == failed[0]:
            failed.append(self.ids)
            raise MemoryError
        original(self, logits)

    monkeypatch.setattr(ScoringRow, "take", cramped)
    found = model.score(requests)
    assert len(failed) > 1
    assert [type(one) for one in found].count(ModelUnavailable) == 1
    for one, other in zip(found, whole, strict=True):
        if not isinstance(one, ModelUnavailable):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
