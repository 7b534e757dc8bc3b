"""LoRA adapters: peft loads them, and the logits equal those of the patched model."""

import json

import pytest
import torch
from safetensors.torch import load_file

from ke_core.plugin import BadConfig
from ke_weights.patches import applied, write_adapter

IDS = torch.arange(3, 43)[None]
ATTENTION = {"llama": "model.layers.3.self_attn.o_proj.weight", "gpt2": "transformer.h.3.attn.c_proj.weight"}


def logits(module):
    with torch.no_grad():
        return module(input_ids=IDS).logits


def patch_of(model, kit, family):
    one, two = kit.weights[family]
    deltas = {one: kit.low_rank(rank=1), two: kit.low_rank(rank=3, seed=1)}
    deltas[ATTENTION[family]] = kit.low_rank(rank=2, seed=2, inner=64)
    return kit.make_patch(model, deltas)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")  # peft's own use of transformers
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_adapter_logits_equal_patched_logits(opened, kit, tmp_path, family):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = opened(family)
    patch = patch_of(model, kit, family)
    before = logits(model.module)
    with applied(model, patch):
        expected = logits(model.module)
    assert write_adapter(patch, model.module, tmp_path) == 3
    assert float((expected - before).abs().max()) > 0.1
    loaded = peft.PeftModel.from_pretrained(opened(family).module, str(tmp_path))
    assert float((logits(loaded) - expected).abs().max()) < 1e-5
    unloaded = loaded.unload()
    assert torch.equal(logits(unloaded), before)


def test_adapter_of_one_rome_edit_has_rank_one(opened, kit, tmp_path):
    model = opened()
    patch = kit.make_patch(model, {kit.weights["llama"][0]: kit.low_rank(rank=1)})
    assert write_adapter(patch, model.module, tmp_path) == 1
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight": (1, 176),
        "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight": (64, 1),
    }


def test_adapter_has_one_rank_and_scale_one(opened, kit, tmp_path):
    # vLLM's reader knows r, lora_alpha and target_modules, and no rank_pattern.
    model = opened("gpt2")
    write_adapter(patch_of(model, kit, "gpt2"), model.module, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["r"] == config["lora_alpha"] == 3
    assert config["fan_in_fan_out"] is True
    assert config["bias"] == "none"
    assert config["modules_to_save"] is None
    assert "rank_pattern" not in config
    ranks = {name: tensor.shape[0] for name, tensor in load_file(tmp_path / "adapter_model.safetensors").items()
             if "lora_A" in name}  # fmt: skip
    assert set(ranks.values()) == {3}


def test_dense_update_is_refused(opened, kit, tmp_path):
    model = opened()
    with pytest.raises(BadConfig, match="without low rank") as caught:
        write_adapter(kit.make_patch(model, {kit.weights["llama"][0]: kit.dense()}), model.module, tmp_path)
    assert "\n" not in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_card_lists_every_fact_with_its_source(opened, kit, tmp_path):
    model = opened()
    write_adapter(patch_of(model, kit, "llama"), model.module, tmp_path)
    assert "**English** (an encyclopedia, 2026-01-31)" in (tmp_path / "README.md").read_text()
