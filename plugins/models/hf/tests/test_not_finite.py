"""Logits that are not finite are an error instead of an arbitrary token."""

import pytest
import torch

from ke_core.plugin import Generate, NotFinite, Score
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.decoding.sampling import Sampler, choose
from ke_plugin_hf.testing import tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 6
REQUESTS = [Generate(prompt=f"{HEAD}Who is {at}?", max_tokens=6, temperature=float(at % 2)) for at in range(4)]
BAD = [float("nan"), float("inf")]


def spoilt(model):
    model.module.lm_head.weight.data[7] = float("nan")
    return model


def step_that_spoils(monkeypatch, spoils, value=float("nan")):
    """Decoding steps after which a logit of the rows selected by ``spoils`` is ``value``."""
    original = Forward.step

    def step(self, state, tokens):
        logits = original(self, state, tokens).clone()
        logits[spoils(len(tokens)), :, 9] = value
        return logits

    monkeypatch.setattr(Forward, "step", step)


def test_a_model_whose_logits_hold_nan_is_refused():
    with pytest.raises(NotFinite, match="contain NaN") as refused:
        spoilt(tiny_model("llama")).score([Score(prompt="a b", continuations=(" c",))])
    assert "bfloat16" in refused.value.hint


def test_a_backend_with_nan_logits_is_rejected(monkeypatch):
    whole = tiny_model("llama").generate(REQUESTS)
    step_that_spoils(monkeypatch, lambda rows: slice(None) if rows == 3 else [])  # neither the first pair nor the last
    model = tiny_model("llama")
    assert [one.text for one in model.generate(REQUESTS)] == [one.text for one in whole]
    assert set(model.backends) == {"shared", "copied", "plain"}
    assert all("nan" in why for why in model.backends.values())


@pytest.mark.parametrize("value", BAD)
def test_only_a_row_that_becomes_nan_fails(monkeypatch, value):
    model = tiny_model("llama")
    whole = model.generate(REQUESTS)
    step_that_spoils(monkeypatch, lambda rows: [1, 2] if rows == 4 else [], value)
    found = model.generate(REQUESTS)
    assert found[::3] == whole[::3]
    assert [type(one) for one in found[1:3]] == [NotFinite, NotFinite]
    assert "bfloat16" in found[1].hint


def test_a_nan_row_is_not_retried_after_out_of_memory(monkeypatch):
    model = tiny_model("llama")
    whole = model.generate(REQUESTS)
    original, fed = Forward.prefill, []

    def prefill(self, prefix, rows, **more):
        fed.append(len(rows))
        logits, state = original(self, prefix, rows, **more)
        if len(fed) == 1:
            logits[0] = float("nan")
        return logits, state

    def full(self, state, tokens):
        monkeypatch.setattr(Forward, "step", step)
        raise MemoryError

    step = Forward.step
    monkeypatch.setattr(Forward, "prefill", prefill)
    monkeypatch.setattr(Forward, "step", full)
    found = model.generate(REQUESTS)
    assert sum(isinstance(one, NotFinite) for one in found) == 1
    assert sum(one == other for one, other in zip(found, whole, strict=True)) == 3
    assert sum(fed) == 4 + 3


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_nan_row_run_separately_fails(temperature):
    model = tiny_model("llama")
    model._runner.backends.why.update(dict.fromkeys(("shared", "copied", "plain"), "no"))
    good = model.generate([Generate(prompt="a", max_tokens=4)])[0]
    assert good.tokens == 4
    bad = spoilt(model).generate([Generate(prompt="a", max_tokens=4, temperature=temperature)])[0]
    assert isinstance(bad, NotFinite)


def test_logits_of_minus_infinity_are_valid():
    logits = torch.full((2, 5), float("-inf"))
    logits[0, 3] = 1.0
    choosers = [Sampler(Generate(prompt="a", temperature=t)) for t in (0.0, 1.0)]
    assert next(choose(choosers, logits)) == 3
    assert [type(one) for one in choose(choosers, logits)] == [int, NotFinite]
    assert list(choose(choosers, logits[[0, 0]])) == [3, 3]


def test_backends_are_tested_with_the_current_weights():
    model = tiny_model("llama")
    model.generate([Generate(prompt="a", max_tokens=2)])
    assert set(model.backends) == {"plain"}
    model.module.model.layers[0].mlp.down_proj.weight.data.mul_(2)
    model.generate(REQUESTS)
    assert model.backends["shared"] == ""


def test_nan_weights_do_not_disable_backends_later():
    model = tiny_model("llama")
    before = model.module.lm_head.weight.clone()
    with pytest.raises(NotFinite, match="contain NaN"):
        spoilt(model).generate(REQUESTS)
    model.module.lm_head.weight.data.copy_(before)
    assert model.generate(REQUESTS) == tiny_model("llama").generate(REQUESTS)
