from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    GPTNeoConfig,
    GraniteConfig,
    MistralConfig,
    MixtralConfig,
    Olmo2Config,
    Qwen2MoeConfig,
    T5Config,
    T5ForConditionalGeneration,
)

from ke_core.errors import KEError
from ke_core.testing.tiny import FAMILIES, Family, randomise, tiny_model
from ke_core.whitebox.hooks import Hooks, first, forward, frozen_module
from ke_core.whitebox.modules import ModuleMap, module_map

PROJECTIONS = {
    "gpt2": ("transformer.h.2.mlp.c_proj", 1),
    "gptj": ("transformer.h.2.mlp.fc_out", 1),
    "gptneox": ("gpt_neox.layers.2.mlp.dense_4h_to_h", 1),
    "llama": ("model.layers.2.mlp.down_proj", 2),
    "qwen2": ("model.layers.2.mlp.down_proj", 2),
}
SHAPE: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 0,
}  # fmt: skip


def made(config: Any) -> Any:
    module = AutoModelForCausalLM.from_config(config)
    randomise(module, 0)
    return module.eval()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parts_of_known_families_are_found(family: Family, dtype: str) -> None:
    module = tiny_model(family, dtype=dtype).module
    found = module_map(module)
    layer = found.layers[2]
    name, into = PROJECTIONS[family]
    assert (layer.projection_name, layer.weight_name) == (name, f"{name}.weight")
    assert len(layer.expansion) == into
    assert (found.hidden, found.inner, len(found.layers)) == (64, 176, 4)
    assert tuple(layer.matrix.shape) == (64, 176)
    assert module.get_parameter(layer.weight_name).shape == ((176, 64) if family == "gpt2" else (64, 176))
    assert layer.conv1d == (family == "gpt2")
    assert found.dtype == torch.float32
    assert found.unembedding is module.get_output_embeddings()
    assert found.rms_norm == (family in ("llama", "qwen2"))


@pytest.mark.parametrize(
    "config",
    [
        MistralConfig(**SHAPE, sliding_window=4),
        GPTNeoConfig(
            vocab_size=100, hidden_size=32, intermediate_size=48, num_layers=2, num_heads=4,
            attention_types=[[["global", "local"], 1]], window_size=4,
        ),
    ],
    ids=["mistral", "gpt-neo"],
)  # fmt: skip
def test_other_pre_norm_decoders_are_mapped_without_knowing_their_names(config: Any) -> None:
    found = module_map(made(config))
    assert (found.hidden, found.inner) == (32, 48)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (Gemma2Config(**SHAPE), "does not add"),
        (Olmo2Config(**SHAPE), "does not add"),
        (GraniteConfig(**SHAPE, residual_multiplier=0.5), "does not add"),
        (GraniteConfig(**SHAPE, logits_scaling=3.0), "scaled or capped"),
        (MixtralConfig(**SHAPE, num_local_experts=2), "mixture of experts"),
        (
            Qwen2MoeConfig(**SHAPE, num_experts=4, moe_intermediate_size=48, shared_expert_intermediate_size=48),
            "experts",
        ),
    ],
    ids=["gemma2", "olmo2", "granite", "granite-logits", "mixtral", "qwen2-moe"],
)
def test_decoders_in_which_an_edit_would_not_hold_are_refused(config: Any, why: str) -> None:
    with pytest.raises(KEError, match=why) as caught:
        module_map(made(config))
    assert "pre-norm" in caught.value.hint


def test_an_encoder_decoder_is_refused() -> None:
    tiny = T5Config(vocab_size=100, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_heads=2)
    with pytest.raises(KEError, match="encoder-decoder"):
        module_map(T5ForConditionalGeneration(tiny))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_mapping_leaves_hooks_flags_and_mode_alone(family: Family, snapshot: Any) -> None:
    module = tiny_model(family).module
    module.train()
    module.requires_grad_(requires_grad=True)
    before = snapshot(module)
    module_map(module)
    assert before == snapshot(module)


def square(family: str) -> Any:
    if family == "gpt2":
        return made(GPT2Config(vocab_size=100, n_embd=32, n_inner=32, n_layer=3, n_head=4, n_positions=32))
    return made(MistralConfig(**{**SHAPE, "intermediate_size": 32}))


@pytest.mark.parametrize("family", ["gpt2", "mistral"])
def test_a_square_projection_is_oriented_by_its_modules_type(family: str) -> None:
    """Numerics 23: no shape tells keys from values here, so W k + b is checked against the module."""
    found = module_map(square(family))
    layer = found.layers[1]
    key = torch.randn(32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        value = layer.projection(key[None])[0] - (layer.projection.bias if family == "gpt2" else 0)
    assert torch.allclose(layer.matrix @ key, value, atol=1e-5)
    assert layer.projection_name.endswith("c_proj" if family == "gpt2" else "down_proj")
    assert layer.mlp is not layer.projection


@pytest.mark.parametrize("layers", [(), (4,), (-1, 0), (2, 1), (1, 1)])
def test_e13_layers_that_the_model_does_not_have_are_named(layers: tuple[int, ...]) -> None:
    found = module_map(tiny_model("llama").module)
    with pytest.raises(KEError, match="do not fit a model of 4 layers"):
        found.check_layers(layers)


def test_e13_a_tied_head_is_read_where_it_is() -> None:
    module = made(GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32, tie_word_embeddings=True))
    found = module_map(module)
    ids = torch.arange(1, 6)[None]
    tops: list[torch.Tensor] = []
    with frozen_module(module), Hooks() as hooks:
        hooks.after(found.layers[-1].block, tops.append)
        logits = forward(module, ids, torch.ones_like(ids)).logits
        assert torch.allclose(found.logits(tops[0]), logits, atol=1e-5)


def test_hidden_states_of_a_tensor_are_not_its_first_row() -> None:
    states = torch.zeros(2, 3, 4)
    assert first(states) is states
    assert first((states, None)) is states


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_and_flags_are_gone_after_the_block(*, fails: bool, snapshot: Any) -> None:
    model = tiny_model("llama")
    model.module.requires_grad_(requires_grad=True)
    model.module.model.layers[1].train()
    found = module_map(model.module)
    before = snapshot(model.module)
    crash = pytest.raises(ZeroDivisionError) if fails else nullcontext()
    with crash, frozen_module(model.module), Hooks() as hooks:
        hooks.after(found.layers[0].block, lambda _output: None)
        hooks.stop_after(found.layers[0].block)
        assert forward(model.module, torch.ones(1, 2, dtype=torch.long), torch.ones(1, 2)) is None
        if fails:
            raise ZeroDivisionError
    assert before == snapshot(model.module)


def test_a_map_says_where_ids_go() -> None:
    found: ModuleMap = module_map(tiny_model("gpt2").module)
    assert found.device.type == "cpu"
