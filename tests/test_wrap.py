"""``ke.wrap`` with models that the caller prepared: peft adapters, quantized weights, offloaded weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import cpu_offload
from peft import LoraConfig, get_peft_model
from torch import nn

import ke_core as ke
from ke_core.api import Model
from ke_core.spec.errors import BadConfig, KEError, ModelUnavailable
from ke_plugin_hf.testing import INNER, Fp8Weight, tiny_model, tiny_nf4
from ke_weights import EditInputs

pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),  # of peft, in transformers
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch.ao.quantization
]
EDIT: dict[str, Any] = {"prompt": "The capital of {} is", "subject": "Peru", "target": "Cusco"}
FT: dict[str, Any] = {"editor": "ft", "options": {"epochs": 2}}
ROME: dict[str, Any] = {
    "editor": "rome",
    "options": {"steps": 2, "layer": 2},
    "inputs": EditInputs(covariance={2: np.eye(INNER)}),
}


class PackedTensor(torch.Tensor):
    """A subclass with the dtype of the decoded weight, which says which tensors it wraps, as torchao's does."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return [], None


def with_adapters(module: Any, target: str) -> Any:
    torch.manual_seed(0)  # peft draws the adapters' first matrix
    found = get_peft_model(module, LoraConfig(target_modules=[target], r=2))
    for name, parameter in found.named_parameters():
        if "lora_B" in name:
            nn.init.ones_(parameter)
    return found


def packed(module: Any) -> Any:
    for block in module.model.layers:
        weight = block.mlp.down_proj.weight.detach().as_subclass(PackedTensor)
        block.mlp.down_proj.weight = nn.Parameter(weight, requires_grad=False)
    return module


def in_fp8(module: Any) -> Any:
    for block in module.model.layers:
        block.mlp.down_proj = Fp8Weight(block.mlp.down_proj)
    return module


def in_int8(module: Any) -> Any:
    return torch.ao.quantization.quantize_dynamic(module, {nn.Linear})


def offloaded(module: Any) -> Any:
    return cpu_offload(module, execution_device=torch.device("cpu"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))


def wrapped(prepare: Callable[[Any], Any]) -> Model:
    tiny = tiny_model("llama")
    return ke.wrap(prepare(tiny.module), tiny.tokenizer, name="mine")


@pytest.mark.parametrize(("target", "how"), [("q_proj", FT), ("q_proj", ROME), ("down_proj", FT)])
def test_a_model_with_adapters_is_edited_and_restored(target: str, how: Any, tmp_path: Path) -> None:
    model = wrapped(lambda module: with_adapters(module, target))
    before, asked = model.model.state(), ("The capital of Peru is", "Cusco")
    first = model.logprob(*asked)
    with ke.edit(model, **EDIT, **how) as edited:
        assert edited.logprob(*asked) != first
        for save in (edited.save_patch, edited.save_adapter, edited.save_pretrained):
            with pytest.raises(BadConfig, match="peft adapters") as caught:
                save(tmp_path / "saved.safetensors")
            assert "merge_and_unload" in caught.value.hint
    assert model.model.state() == before


def test_locate_and_edit_asks_to_merge_adapters_of_the_edited_output() -> None:
    model = wrapped(lambda module: with_adapters(module, "down_proj"))
    says = r"peft adapters; merge them first.*merge_and_unload"
    with pytest.raises(KEError, match=says), ke.edit(model, **EDIT, **ROME):
        pass
    merged = wrapped(lambda module: with_adapters(module, "down_proj").merge_and_unload())
    with ke.edit(merged, **EDIT, **ROME) as edited:
        assert edited.edits


@pytest.mark.parametrize("how", [FT, ROME])
@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (in_fp8, r"down_proj.weight is quantized \(torch.float8_e4m3fn"),
        (packed, r"down_proj.weight is quantized \(PackedTensor"),
        (in_int8, "quantized by torch"),
        (offloaded, "is offloaded"),
    ],
)
def test_weights_that_cannot_be_changed_are_refused_with_the_reason(prepare: Any, says: str, how: Any) -> None:
    model = wrapped(prepare)
    before = model.model.state()
    with pytest.raises(KEError, match=says) as caught, ke.edit(model, **EDIT, **how):
        pass
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert model.model.state() == before


@pytest.mark.parametrize("prepare", [in_fp8, packed, offloaded])
def test_memory_editors_use_models_whose_weights_cannot_be_changed(prepare: Any) -> None:
    with ke.edit(wrapped(prepare), **EDIT, editor="ice") as edited:
        assert isinstance(edited.ask("What is the capital of Peru?", max_tokens=2), str)


def test_a_model_in_4_bits_is_edited_by_qlora_and_refused_by_other_weight_editors(tmp_path: Path) -> None:
    tiny = tiny_nf4(tmp_path, "llama")
    model = ke.wrap(tiny.module, tiny.tokenizer, name="mine")
    before, asked = model.model.state(), ("The capital of Peru is", "Cusco")
    first = model.logprob(*asked)
    for how in (FT, ROME):
        with pytest.raises(KEError, match="quantized") as caught, ke.edit(model, **EDIT, **how):
            pass
        assert caught.value.hint
    with ke.edit(model, **EDIT, editor="qlora", options={"epochs": 3}) as edited:
        assert edited.logprob(*asked) != first
    assert model.model.state() == before


def test_wrap_refuses_what_is_no_language_model() -> None:
    tiny = tiny_model("llama")
    with pytest.raises(ModelUnavailable, match="needs a transformers model, not a str"):
        ke.wrap("smollm2-135m", tiny.tokenizer)
    with pytest.raises(ModelUnavailable, match="LlamaModel is not a causal language model"):
        ke.wrap(tiny.module.model, tiny.tokenizer)
    with pytest.raises(ModelUnavailable, match="is a NoneType, not a transformers tokenizer"):
        ke.wrap(tiny.module, None)
    with pytest.raises(ModelUnavailable, match="no chat template"):
        ke.wrap(tiny.module, tiny.tokenizer, chat=True)
