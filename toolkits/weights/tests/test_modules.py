from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from accelerate import cpu_offload
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GraniteConfig,
    Llama4TextConfig,
    MambaConfig,
    MistralConfig,
    MixtralConfig,
    Olmo2Config,
    OlmoeConfig,
    OPTConfig,
    Qwen2MoeConfig,
    RecurrentGemmaConfig,
    T5Config,
    T5ForConditionalGeneration,
)

from ke_core.plugin import KEError
from ke_plugin_hf.adaptors import first
from ke_plugin_hf.guard import LowRank, Patch
from ke_plugin_hf.testing import ADDITIVE, BLOCKED, Family, randomize, tiny_model
from ke_weights import modules
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap, find_parts, module_map

GATED = ("mlp.gate_proj", "mlp.up_proj")
FEEDFORWARD: dict[Family, tuple[str, str, tuple[str, ...]]] = {  # block, projection, what leads into it
    "gpt2": ("transformer.h", "mlp.c_proj", ("mlp.c_fc",)),
    "gptj": ("transformer.h", "mlp.fc_out", ("mlp.fc_in",)),
    "gptneox": ("gpt_neox.layers", "mlp.dense_4h_to_h", ("mlp.dense_h_to_4h",)),
    "bloom": ("transformer.h", "mlp.dense_4h_to_h", ("mlp.dense_h_to_4h",)),
    "codegen": ("transformer.h", "mlp.fc_out", ("mlp.fc_in",)),
    "falcon": ("transformer.h", "mlp.dense_4h_to_h", ("mlp.dense_h_to_4h",)),
    "glm": ("model.layers", "mlp.down_proj", ("mlp.gate_up_proj",)),
    "glm4": ("model.layers", "mlp.down_proj", ("mlp.gate_up_proj",)),
    "gpt-bigcode": ("transformer.h", "mlp.c_proj", ("mlp.c_fc",)),
    "gpt-neo": ("transformer.h", "mlp.c_proj", ("mlp.c_fc",)),
    "mpt": ("transformer.blocks", "ffn.down_proj", ("ffn.up_proj",)),
    "opt": ("model.decoder.layers", "fc2", ("fc1",)),
    "phi": ("model.layers", "mlp.fc2", ("mlp.fc1",)),
    "phi3": ("model.layers", "mlp.down_proj", ("mlp.gate_up_proj",)),
    "starcoder2": ("model.layers", "mlp.c_proj", ("mlp.c_fc",)),
}
LLAMA_LIKE = ("model.layers", "mlp.down_proj", GATED)
ATTENTION: dict[Family, str] = {
    "gpt2": "attn.c_proj", "gptj": "attn.out_proj", "gptneox": "attention.dense", "bloom": "self_attention.dense",
    "codegen": "attn.out_proj", "falcon": "self_attention.dense", "gpt-bigcode": "attn.c_proj",
    "gpt-neo": "attn.attention.out_proj", "mpt": "attn.out_proj", "opt": "self_attn.out_proj", "phi": "self_attn.dense",
}  # fmt: skip
NORM: dict[Family, str] = {
    "gptneox": "gpt_neox.final_layer_norm", "mpt": "transformer.norm_f", "opt": "model.decoder.final_layer_norm",
    "phi": "model.final_layernorm",
}  # fmt: skip
NO_MLP_MODULE = ("bloom", "mpt", "opt")  # OPT has none; those of BLOOM and MPT add the residual stream themselves
SHAPE: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 0,
}  # fmt: skip
OPT_SHAPE: dict[str, Any] = {
    "vocab_size": 100, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "word_embed_proj_dim": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 0,
}  # fmt: skip
EVERY: tuple[Family, ...] = (*ADDITIVE, *BLOCKED)


def made(config: Any) -> Any:
    module = AutoModelForCausalLM.from_config(config)
    randomize(module, 0)
    return module.eval()


@pytest.mark.parametrize("family", EVERY)
def test_parts_of_every_family_are_found(family: Family) -> None:
    module = tiny_model(family).module
    found = find_parts(module)
    names = {part: name for name, part in module.named_modules()}
    blocks, projection, into = FEEDFORWARD.get(family, LLAMA_LIKE)
    inner = 256 if family in ("bloom", "mpt") else 176  # 4 d is these two's only choice
    assert (found.hidden, found.inner, len(found.layers)) == (64, inner, 4)
    for layer in found.layers:
        prefix = f"{blocks}.{layer.index}"
        assert (layer.name, names[layer.block]) == (prefix, prefix)
        assert layer.projection_name == names[layer.projection] == f"{prefix}.{projection}"
        assert layer.weight_name == f"{prefix}.{projection}.weight"
        assert layer.expansion == tuple(f"{prefix}.{name}" for name in into)
        assert names[layer.attention_out] == f"{prefix}.{ATTENTION.get(family, 'self_attn.o_proj')}"
        mlp = projection if family in NO_MLP_MODULE else projection.rpartition(".")[0]
        assert names[layer.mlp] == f"{prefix}.{mlp}"
    layer = found.layers[2]
    assert layer.conv1d == (family == "gpt2")
    assert tuple(layer.matrix.shape) == (64, inner)
    assert module.get_parameter(layer.weight_name).shape == ((inner, 64) if layer.conv1d else (64, inner))
    by_layout = {"transformer.h": "transformer.ln_f", "model.layers": "model.norm"}
    assert names[found.final_norm] == NORM.get(family, by_layout.get(blocks, ""))
    assert found.unembedding is module.get_output_embeddings()
    assert found.rms_norm == hasattr(module.config, "rms_norm_eps")
    assert found.dtype == torch.float32
    assert bool(found.obstacle) == (family in BLOCKED)


@pytest.mark.parametrize("family", EVERY)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_module_map_does_not_depend_on_dtype(family: Family, dtype: str) -> None:
    module = tiny_model(family, dtype=dtype).module
    found = find_parts(module)
    blocks, projection, _into = FEEDFORWARD.get(family, LLAMA_LIKE)
    assert found.layers[2].weight_name == f"{blocks}.2.{projection}.weight"
    assert bool(found.obstacle) == (family in BLOCKED)
    assert found.rms_norm == hasattr(module.config, "rms_norm_eps")
    assert found.dtype == torch.float32


@pytest.mark.parametrize("family", ADDITIVE)
def test_update_of_a_layer_appears_in_the_output_of_its_block(family: Family) -> None:
    """W + v k^T / |k|^2 moves the block's output by v, and nothing before it."""
    module = tiny_model(family, dtype="float64").module
    layer = module_map(module).layers[1]
    ids = torch.arange(5, 11)[None]

    def look() -> tuple[torch.Tensor, torch.Tensor]:
        keys: list[torch.Tensor] = []
        states: list[torch.Tensor] = []
        with frozen_module(module), Hooks() as hooks:
            hooks.before(layer.projection, lambda args, _kwargs: keys.append(args[0].reshape(6, -1)[3]))
            hooks.after(layer.block, lambda output: states.append(output[0, 3]))
            forward(module, ids, torch.ones_like(ids))
        return keys[0], states[0]

    key, before = look()
    value = torch.linspace(-1, 1, 64, dtype=torch.float64)
    with Patch(module) as weights:
        weights.add(layer.weight_name, LowRank(left=value[:, None], right=(key / (key @ key))[None]))
        same, after = look()
    assert torch.equal(same, key)
    assert torch.allclose(after - before, value, atol=1e-10)
    assert torch.equal(look()[1], before)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (GraniteConfig(**SHAPE, residual_multiplier=0.5), "block 0 does not add .* residual multiplier"),
        (GraniteConfig(**SHAPE, logits_scaling=3.0), "scaled, capped"),
        (Gemma2Config(**SHAPE), "a norm after the MLP"),
        (Gemma3TextConfig(**SHAPE), "a norm after the MLP"),
        (Olmo2Config(**{k: v for k, v in SHAPE.items() if k != "head_dim"}), "a norm after the MLP"),
        (CohereConfig(**{k: v for k, v in SHAPE.items() if k != "head_dim"}), "scaled, capped"),
        (OPTConfig(**OPT_SHAPE), "projected"),
        (OPTConfig(**OPT_SHAPE, do_layer_norm_before=False), "a norm after the MLP"),
    ],
    ids=["granite", "granite-logits", "gemma2", "gemma3", "olmo2", "cohere", "opt-projected", "opt-350m"],
)
def test_decoders_with_obstacle_have_parts_but_cannot_be_edited(config: Any, why: str) -> None:
    module = made(config)
    with pytest.raises(KEError, match=f"cannot locate and edit in {type(module).__name__}: .*{why}") as caught:
        module_map(module)
    assert "\n" not in str(caught.value)
    assert "pre-norm" in caught.value.hint
    assert "ft" in caught.value.hint
    found = find_parts(module)
    assert found.obstacle
    assert len(found.layers) == 3


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (MixtralConfig(**SHAPE, num_local_experts=2), "mixture of experts"),
        (
            Qwen2MoeConfig(**SHAPE, num_experts=4, moe_intermediate_size=48, shared_expert_intermediate_size=48),
            "mixture of experts",
        ),
        (
            OlmoeConfig(**{k: v for k, v in SHAPE.items() if k != "head_dim"}, num_experts=4, num_experts_per_tok=2),
            "mixture of experts",
        ),
        (Llama4TextConfig(**SHAPE, num_local_experts=2), "mixture of experts"),
        (MambaConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, state_size=4), "no attention output"),
        (RecurrentGemmaConfig(**SHAPE | {"num_key_value_heads": 1}), "no attention output"),
    ],
    ids=["mixtral", "qwen2-moe", "olmoe", "llama4", "mamba", "recurrent-gemma"],
)
@pytest.mark.filterwarnings("ignore")  # Mamba's about kernels that are not installed
def test_models_without_the_parts_are_refused(config: Any, why: str) -> None:
    module = made(config)
    with pytest.raises(KEError, match=why) as caught:
        find_parts(module)
    assert "\n" not in str(caught.value)
    assert "without experts" in caught.value.hint
    with pytest.raises(KEError, match=why):
        module_map(module)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("gain", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("family", ["gpt2", "gptneox", "llama"])
def test_norm_kind_is_detected_by_centering_for_large_gains(family: Family, gain: float, dtype: str) -> None:
    module = tiny_model(family, dtype=dtype).module
    norm = module.model.norm if family == "llama" else find_parts(module).final_norm
    with torch.no_grad():
        norm.weight.mul_(gain)
    kept = norm.weight.clone()
    assert find_parts(module).rms_norm == (family == "llama")
    assert torch.equal(norm.weight, kept)
    assert str(norm.weight.dtype) == f"torch.{dtype}"


class Quantized(nn.Linear):
    """8-bit weights with one scale, in the format of quantizers."""

    def __init__(self, plain: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=False)
        self.scale = float(plain.weight.detach().abs().max()) / 100
        self.weight = nn.Parameter((plain.weight.detach() / self.scale).to(dtype), requires_grad=False)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  torch's name
        return nn.functional.linear(input, self.weight.to(input.dtype) * self.scale)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_quantized_projection_is_found_but_cannot_be_edited(dtype: torch.dtype) -> None:
    """QLoRA needs its name. An 8-bit float is a floating-point type, but the weight is not W."""
    module = tiny_model("llama").module
    for block in module.model.layers:
        block.mlp.down_proj = Quantized(block.mlp.down_proj, dtype)
    assert find_parts(module).layers[3].projection_name == "model.layers.3.mlp.down_proj"
    assert find_parts(module).dtype == torch.float32
    with pytest.raises(KEError, match=r"model\.layers\.0\.mlp\.down_proj\.weight is quantized .*not quantized"):
        module_map(module)


def test_encoder_decoder_is_refused() -> None:
    tiny = T5Config(vocab_size=100, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_heads=2)
    with pytest.raises(KEError, match="encoder-decoder"):
        module_map(T5ForConditionalGeneration(tiny))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_mapping_leaves_hooks_flags_and_mode_unchanged(family: Family, snapshot: Any) -> None:
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
def test_square_projection_is_oriented_by_module_type(family: str) -> None:
    """The shape is ambiguous here, so W k + b is compared with the module."""
    found = module_map(square(family))
    layer = found.layers[1]
    key = torch.randn(32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        value = layer.projection(key[None])[0] - (layer.projection.bias if family == "gpt2" else 0)
    assert torch.allclose(layer.matrix @ key, value, atol=1e-5)
    assert layer.projection_name.endswith("c_proj" if family == "gpt2" else "down_proj")
    assert layer.mlp is not layer.projection
    wanted = torch.linspace(-1, 1, 32)
    update = LowRank(left=(wanted - value)[:, None], right=(key / (key @ key))[None])
    with Patch(found.module) as weights:
        weights.add(layer.weight_name, update)
        assert torch.allclose(layer.matrix @ key, wanted, atol=1e-5)


@pytest.mark.parametrize("layers", [(), (4,), (-1, 0), (2, 1), (1, 1)])
def test_missing_layers_are_named(layers: tuple[int, ...]) -> None:
    found = module_map(tiny_model("llama").module)
    with pytest.raises(KEError, match="do not fit a model of 4 layers"):
        found.check_layers(layers)


def test_tied_unembedding_is_found() -> None:
    module = made(GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32, tie_word_embeddings=True))
    found = module_map(module)
    ids = torch.arange(1, 6)[None]
    tops: list[torch.Tensor] = []
    with frozen_module(module), Hooks() as hooks:
        hooks.after(found.layers[-1].block, tops.append)
        logits = forward(module, ids, torch.ones_like(ids)).logits
        assert torch.allclose(found.logits(tops[0]), logits, atol=1e-5)


def test_hidden_states_of_a_tensor_output_are_complete() -> None:
    states = torch.zeros(2, 3, 4)
    assert first(states) is states
    assert first((states, None)) is states


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_and_flags_are_restored_after_the_block(*, fails: bool, snapshot: Any) -> None:
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


def test_module_map_has_the_device_of_token_ids() -> None:
    found: ModuleMap = module_map(tiny_model("gpt2").module)
    assert found.device.type == "cpu"


def test_model_split_over_processes_is_refused(monkeypatch):
    monkeypatch.setattr(modules, "is_split", lambda _module: True)
    with pytest.raises(KEError, match="split over several processes"):
        find_parts(tiny_model().module)


def test_model_with_an_offloaded_layer_is_refused():
    model = tiny_model("llama")
    cpu_offload(model.module.model.layers[2], execution_device=torch.device("cpu"))
    with pytest.raises(KEError, match=r"model\.layers\.2\.\S+ is offloaded"):
        find_parts(model.module)
