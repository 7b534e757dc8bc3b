"""If rows run separately, a row that exceeds the memory does not affect the others."""

import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig

from ke_core.plugin import Generate, ModelUnavailable, Score, Scored
from ke_plugin_hf.decoding import verify
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import tiny_config, tiny_model, tiny_tokenizer

SHORT = ["Who is it?", "Apple", "The capital of Italy is"]
LONG = "and " * 100


@pytest.fixture
def recurrent():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = MambaConfig(vocab_size=400, hidden_size=64, num_hidden_layers=2, state_size=8)
        return HFModel.from_parts(AutoModelForCausalLM.from_config(config), tiny_tokenizer(), id="mamba")


def cramp(model, error):
    """Raise out-of-memory errors for more than 60 tokens."""

    def cramped(_module, _given, more):
        if more["input_ids"].shape[1] > 60:
            raise error

    model.module.register_forward_pre_hook(cramped, with_kwargs=True)


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_only_the_row_that_exceeds_memory_fails(recurrent, error):
    written = [Generate(prompt=prompt, max_tokens=4) for prompt in SHORT]
    scored = [Score(prompt=prompt, continuations=(" he", " Rome")) for prompt in SHORT]
    texts, scores = recurrent.generate(written), recurrent.score(scored)
    assert all(recurrent.backends.values())  # none holds
    cramp(recurrent, error)
    *found, bad = recurrent.generate([*written, Generate(prompt=LONG, max_tokens=4)])
    assert found == texts
    assert isinstance(bad, ModelUnavailable)
    assert "out of memory for a single prompt of" in str(bad)
    bad, *found = recurrent.score([Score(prompt=LONG, continuations=(" he",)), *scored])
    assert found == scores
    assert "out of memory for a single prompt of" in str(bad)


def test_another_error_of_a_row_alone_is_raised(recurrent):
    recurrent.generate([Generate(prompt=SHORT[0], max_tokens=1)])
    cramp(recurrent, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        recurrent.generate([Generate(prompt=LONG, max_tokens=4)])


@pytest.mark.parametrize("times", [1, 99])
def test_running_out_of_memory_in_the_probe_loses_no_answer(monkeypatch, times):
    """Running out of memory once drops the caches; repeatedly, rows run separately."""
    requests = [Generate(prompt=prompt, max_tokens=4) for prompt in SHORT]
    wanted = [one.text for one in tiny_model("llama").generate(requests)]
    compare, tried = verify._compare, []

    def cramped(forward, rows):
        tried.append(forward.mode)
        if len(tried) <= times:
            raise MemoryError
        return compare(forward, rows)

    monkeypatch.setattr(verify, "_compare", cramped)
    model = tiny_model("llama")
    assert [one.text for one in model.generate(requests)] == wanted
    assert model.backends == ({"plain": ""} if times == 1 else {})
    assert isinstance(model.score([Score(prompt="Apple", continuations=(" he",))])[0], Scored)


def of_context(length):
    config = tiny_config("gpt2")
    config.n_positions = length
    torch.manual_seed(0)
    return HFModel.from_parts(AutoModelForCausalLM.from_config(config), tiny_tokenizer(), id="short")


@pytest.mark.parametrize("length", [10, 24])
def test_the_probe_fits_a_short_context(length):
    model = of_context(length)
    assert model._runner.backends.best(length, prefix=True).mode == "shared"
    assert model.generate([Generate(prompt="Apple", max_tokens=2)])[0].tokens == 2


def test_a_context_too_short_for_the_probe_is_an_error():
    with pytest.raises(ModelUnavailable, match="a context of 9 tokens is too short"):
        of_context(9).generate([Generate(prompt="a", max_tokens=1)])
