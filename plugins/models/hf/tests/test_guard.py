"""Weights are changed in map orientation and restored bit for bit."""

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

from ke_core.plugin import EditFailed, Generate
from ke_plugin_hf.guard import Dense, LowRank, Patch
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import randomize, tiny_model, tiny_tokenizer

DOWN = "model.layers.1.mlp.down_proj.weight"


def bytes_of(model):
    return {name: tensor.detach().clone().view(torch.uint8) for name, tensor in model.module.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def add_and_fail(model):
    with model.patch() as weights:
        weights.add(DOWN, LowRank(left=torch.randn(64, 2), right=torch.randn(2, 176)))
        _ = 1 / 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_updates_of_every_dtype_are_added_in_float32_and_restored(dtype):
    model = tiny_model("llama", dtype=dtype)
    weight = model.module.get_parameter(DOWN)
    before, found = bytes_of(model), weight.detach().clone()
    delta = torch.randn(64, 176, dtype=torch.float64) * 0.01
    with model.patch() as weights:
        weights.add(DOWN, Dense(delta=delta))
        precise = torch.promote_types(weight.dtype, torch.float32)
        assert torch.equal(weight, (found.to(precise) + delta.to(precise)).to(weight.dtype))
        assert weight.dtype == getattr(torch, dtype)
        assert not same(bytes_of(model), before)
    assert same(bytes_of(model), before)


def test_an_exception_restores_the_weights():
    model = tiny_model("llama")
    before = bytes_of(model)
    with pytest.raises(ZeroDivisionError):
        add_and_fail(model)
    assert same(bytes_of(model), before)


def test_nested_patches_unwind_in_order():
    model = tiny_model("llama")
    before = bytes_of(model)
    with model.patch() as outer:
        outer.add(DOWN, Dense(delta=torch.ones(64, 176)))
        between = bytes_of(model)
        with model.patch() as inner:
            inner.add(DOWN, Dense(delta=torch.ones(64, 176)))
            inner.add(DOWN, Dense(delta=torch.ones(64, 176)))
        assert same(bytes_of(model), between)
    assert same(bytes_of(model), before)


def test_low_rank_and_dense_agree():
    left, right = torch.randn(64, 3), torch.randn(3, 176)
    model = tiny_model("llama")
    with model.patch() as weights:
        weights.add(DOWN, LowRank(left=left, right=right))
        one = model.module.get_parameter(DOWN).clone()
    with model.patch() as weights:
        weights.add(DOWN, Dense(delta=left @ right))
        assert torch.allclose(model.module.get_parameter(DOWN), one)


@pytest.mark.parametrize("inner", [64, 176])
def test_orientation_depends_on_the_modules_type(inner):
    # Numerics test 23: with f == d the shape says nothing, and a transposed update passes unnoticed.
    config = GPT2Config(vocab_size=400, n_positions=64, n_embd=64, n_layer=1, n_head=4, n_inner=inner)
    model = HFModel.from_parts(AutoModelForCausalLM.from_config(config), tiny_tokenizer(), id="square")
    randomize(model.module, 0)
    projection = model.module.transformer.h[0].mlp.c_proj
    key, value = torch.randn(inner), torch.randn(64)
    before = projection(key)
    with model.patch() as weights:
        weights.add("transformer.h.0.mlp.c_proj.weight", LowRank(left=value[:, None], right=key[None] / (key @ key)))
        assert torch.allclose(projection(key), before + value, atol=1e-4)
    assert torch.equal(projection(key), before)


def test_a_bias_takes_a_dense_update():
    model = tiny_model("gpt2")
    bias = model.module.transformer.h[0].mlp.c_proj.bias
    found = bias.clone()
    with model.patch() as weights:
        weights.add("transformer.h.0.mlp.c_proj.bias", Dense(delta=torch.ones(64)))
        assert torch.equal(bias, found + 1)


@pytest.mark.parametrize(
    ("name", "delta", "message"),
    [("model.layers.9.weight", torch.ones(1), "no parameter"),
     (DOWN, torch.ones(176, 64), "does not fit"),
     (DOWN, torch.full((64, 176), float("nan")), "NaN or infinity")],
)  # fmt: skip
def test_a_wrong_update_is_refused_and_changes_nothing(name, delta, message):
    model = tiny_model("llama")
    before = bytes_of(model)
    with model.patch() as weights, pytest.raises(EditFailed, match=message):
        weights.add(name, Dense(delta=delta))
    assert same(bytes_of(model), before)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int8"])
def test_quantized_weights_cannot_be_changed(dtype):
    model = tiny_model("llama")
    codes = torch.ones(64, 176).to(getattr(torch, dtype))
    model.module.model.layers[1].mlp.down_proj.weight = torch.nn.Parameter(codes, requires_grad=False)
    with model.patch() as weights, pytest.raises(EditFailed, match=f"stored as torch.{dtype}") as caught:
        weights.add(DOWN, Dense(delta=torch.ones(64, 176)))
    assert "checkpoint" in caught.value.hint
    assert "--dtype" not in caught.value.hint
    assert weights.originals() == {}


def test_the_relative_norm_of_a_zero_parameter_is_none():
    model = tiny_model("gpt2")
    name = "transformer.h.0.mlp.c_proj.bias"
    model.module.get_parameter(name).data.zero_()
    with model.patch() as weights:
        assert weights.relative_norm(name) == 0
        weights.add(name, Dense(delta=torch.ones(model.module.config.n_embd)))
        assert weights.relative_norm(name) is None


def test_the_relative_norm_says_how_large_an_update_was():
    model = tiny_model("llama")
    weight = model.module.get_parameter(DOWN)
    with model.patch() as weights:
        assert weights.relative_norm(DOWN) == 0
        weights.add(DOWN, Dense(delta=weight.detach() * 0.25))
        weights.add(DOWN, Dense(delta=weight.detach() * 0.2))
        assert weights.relative_norm(DOWN) == pytest.approx(0.5, rel=1e-4)
        assert tuple(weights.originals()) == (DOWN,)


def test_a_tied_weight_changed_under_both_names_is_restored():
    config = GPT2Config(vocab_size=400, n_positions=64, n_embd=64, n_layer=1, n_head=4, tie_word_embeddings=True)
    module = AutoModelForCausalLM.from_config(config).eval()
    found = module.lm_head.weight.detach().clone()
    with Patch(module) as weights:
        weights.add("lm_head.weight", Dense(delta=torch.ones(400, 64)))
        weights.add("transformer.wte.weight", Dense(delta=torch.ones(400, 64)))
    assert torch.equal(module.lm_head.weight, found)


def test_the_digest_follows_the_weights_and_returns():
    model = tiny_model("llama")
    prompts = [Generate(prompt="Question: who? Answer: he.\n" * 5 + end, max_tokens=6) for end in ("a", "b")]
    digest, texts = model.digest, model.generate(prompts)
    with model.patch() as weights:
        weights.add(DOWN, Dense(delta=torch.randn(64, 176)))
        assert model.digest != digest
        assert model.generate(prompts) != texts
    assert model.digest == digest
    assert model.generate(prompts) == texts
