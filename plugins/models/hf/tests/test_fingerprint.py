"""The fingerprint detects every change that an editor may leave; the digest identifies the computation."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from accelerate import cpu_offload
from torch import nn

from ke_core.plugin import Generate
from ke_plugin_hf.fingerprint import WORDS, Checksums, checksum, fingerprint, sample
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import tiny_model


def changed(model, before):
    after = model.state()
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def test_a_changed_value_is_found_even_without_a_version_change():
    model = tiny_model("llama")
    before, digest = model.state(), model.digest
    model.module.model.layers[2].mlp.up_proj.weight.data[3, 4] += 1e-6
    assert changed(model, before) == ["parameter model.layers.2.mlp.up_proj.weight"]
    assert model.digest != digest


def test_a_merge_through_data_is_found_without_reading_every_weight(monkeypatch):
    read = []
    monkeypatch.setattr("ke_plugin_hf.fingerprint.checksum", lambda tensor: read.append(tensor) or checksum(tensor))
    model = tiny_model("llama")
    model.recheck()
    digest = model.digest
    read.clear()
    model.recheck()
    assert model.digest == digest
    assert read == []
    weight = model.module.model.layers[2].mlp.up_proj.weight
    weight.data += torch.ones(len(weight), 1) @ torch.ones(1, weight.shape[1])
    model.recheck()
    assert model.digest != digest
    assert len(read) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("size", [0, 1, 64, 65, 1000])
def test_a_sample_has_at_most_64_values(dtype, size):
    values = torch.arange(size).to(dtype)
    assert len(sample(values)) == min(size, 33 if size == 65 else 63 if size == 1000 else 64) * values.element_size()
    assert not size or not torch.equal(sample(values), sample(values + 1))


def test_a_leftover_hook_changes_fingerprint_and_digest():
    model = tiny_model("llama")
    before, digest = model.state(), model.digest
    handle = model.module.model.layers[1].register_forward_hook(lambda *_: None)
    assert changed(model, before) == ["module model.layers.1"]
    assert model.digest != digest
    handle.remove()
    assert changed(model, before) == []
    assert model.digest == digest


def test_train_mode_changes_the_fingerprint():
    model = tiny_model("gpt2")
    before = model.state()
    model.module.transformer.h[0].train()
    assert "module transformer.h.0" in changed(model, before)


def test_a_gradient_flag_changes_the_fingerprint():
    model = tiny_model("llama")
    before = model.state()
    model.module.lm_head.weight.requires_grad_()
    assert changed(model, before) == ["parameter lm_head.weight"]


def test_buffers_modules_and_forward_functions_are_in_the_fingerprint():
    model = tiny_model("llama")
    before = model.state()
    model.module.model.rotary_emb.inv_freq[0] += 1
    assert changed(model, before) == ["buffer model.rotary_emb.inv_freq"]
    model.module.model.rotary_emb.inv_freq[0] -= 1
    layer = model.module.model.layers[0]
    layer.forward = layer.forward
    assert changed(model, before) == ["module model.layers.0"]
    del layer.forward
    layer.mlp = torch.nn.Sequential(layer.mlp)
    assert "module model.layers.0.mlp" in changed(model, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8])
@pytest.mark.parametrize("size", [0, 1, 7, WORDS * 2, WORDS * 2 + 3, WORDS * 40 + 1])
def test_checksums_detect_a_value_two_signs_and_a_swap(dtype, size):
    values = (torch.arange(size) % 100 + 1).to(dtype)
    first = checksum(values)
    assert checksum(values.clone()) == first
    if size < 7:
        return
    for places in ([size - 1], [1, 3], [0, size - 1]):
        other = values.clone()
        other[places] = -other[places]
        assert checksum(other) != first
    swapped = values.clone()
    swapped[[2, 5]] = values[[5, 2]]
    assert checksum(swapped) != first


def test_checksums_detect_swapped_rows():
    words = torch.randn(WORDS * 8, dtype=torch.float64)
    swapped = torch.cat([words[WORDS : 2 * WORDS], words[:WORDS], words[2 * WORDS :]])
    assert checksum(swapped) != checksum(words)


def test_an_unaligned_view_has_the_same_checksum():
    values = torch.arange(33, dtype=torch.float32)
    assert checksum(values[1:]) == checksum(values[1:].clone())


@pytest.mark.integration
def test_the_digest_is_the_same_in_another_process():
    code = "from ke_plugin_hf.testing import tiny_model; print(tiny_model('qwen2', seed=3).digest)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == tiny_model("qwen2", seed=3).digest
    assert tiny_model("qwen2", seed=4).digest != tiny_model("qwen2", seed=3).digest


def test_fingerprints_are_deterministic():
    module = tiny_model("gptneox").module
    assert fingerprint(module) == fingerprint(module)


def test_the_same_weights_with_a_chat_template_or_another_configuration_have_another_digest():
    plain = tiny_model("llama")
    same = HFModel.from_parts(plain.module, plain.tokenizer, id="elsewhere")
    chatty = HFModel.from_parts(plain.module, plain.tokenizer, id="x", chat=True)
    plain.module.config.rms_norm_eps *= 2
    other = HFModel.from_parts(plain.module, plain.tokenizer, id="x")
    assert plain.digest == same.digest
    assert len({plain.digest, chatty.digest, other.digest}) == 3


def test_another_token_that_ends_a_text_is_another_digest_and_the_configured_one_is_not_counted_twice():
    one, other = tiny_model("llama"), tiny_model("llama")
    own = one.module.config.eos_token_id
    other.module.generation_config.eos_token_id = [own]
    again = HFModel.from_parts(other.module, other.tokenizer, id="x")
    other.module.generation_config.eos_token_id = [own, 7]
    ends_elsewhere = HFModel.from_parts(other.module, other.tokenizer, id="x")
    assert one.digest == again.digest != ends_elsewhere.digest


def test_offloaded_weights_are_distinguished():
    names = []
    for seed in (0, 0, 1):
        model = tiny_model("llama")
        torch.manual_seed(seed)
        model.module.model.layers[1].mlp.up_proj.weight.data.normal_()
        asked = Generate(prompt="Paris is", max_tokens=4)
        (whole,) = model.generate([asked])
        cpu_offload(model.module.model.layers[1], execution_device=torch.device("cpu"))
        assert model.module.model.layers[1].mlp.up_proj.weight.is_meta
        before = model.state()
        assert model.generate([asked]) == [whole]
        assert changed(model, before) == []
        names.append(model.digest)
    assert names[0] == names[1] != names[2]


def test_a_new_tensor_at_the_address_of_an_old_one_has_a_checksum_of_its_own():
    values = np.ones(4, dtype=np.float32)
    module, sums = nn.Linear(4, 1, bias=False), Checksums()

    def checksums():
        module.weight = nn.Parameter(torch.from_numpy(values).view(1, 4))  # neither its address nor its version differs
        return sums.of(module, fresh=False)

    before = checksums()
    values[:] = 2
    assert checksums() != before
