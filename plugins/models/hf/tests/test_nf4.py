"""4-bit models: reproducible, unchanged by generation, not editable."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import Any

import pytest
import torch

from ke_core.plugin import EditFailed, Generate, KEError, ModelRequest, ModelUnavailable
from ke_plugin_hf import nf4
from ke_plugin_hf.loading import load
from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.plugin import Dense, module_map

needs_bitsandbytes = pytest.mark.skipif(not util.find_spec("bitsandbytes"), reason="bitsandbytes is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model("llama", inner=192), tmp_path_factory.mktemp("model"))


def loaded(folder: Path, dtype: str = "nf4") -> Any:
    return load(ModelRequest(id="tiny", dtype=dtype, device="cpu"), str(folder))


@needs_bitsandbytes
def test_a_model_in_four_bits_is_small_and_near_the_original(folder: Path) -> None:
    import bitsandbytes

    model, plain = loaded(folder), loaded(folder, "float32")
    projection = model.module.model.layers[0].mlp.down_proj
    assert projection.weight.quant_state.nested
    assert (projection.weight.quant_type, projection.compute_dtype) == ("nf4", torch.float32)
    assert not hasattr(model.module.lm_head.weight, "quant_state")
    assert model.module.model.embed_tokens.weight.dtype == torch.float32
    decoded = bitsandbytes.functional.dequantize_4bit(projection.weight.data, projection.weight.quant_state)
    original = plain.module.model.layers[0].mlp.down_proj.weight
    assert 0 < float((decoded - original).norm() / original.norm()) < 0.15


@needs_bitsandbytes
def test_the_digest_of_an_nf4_model_is_reproducible(folder: Path) -> None:
    model = loaded(folder)
    assert model.digest == loaded(folder).digest
    assert model.digest != loaded(folder, "float32").digest


@needs_bitsandbytes
def test_generation_does_not_change_the_fingerprint(folder: Path) -> None:
    model = loaded(folder)
    before, digest = dict(model.state()), model.digest
    (reply,) = model.generate([Generate(prompt="The capital of", max_tokens=3)])
    assert reply.tokens == 3
    assert dict(model.state()) == before
    assert model.digest == digest


@needs_bitsandbytes
@pytest.mark.parametrize("part", ["absmax", "offset", "state2.absmax"])
def test_a_changed_scale_changes_state_and_digest(part: str, folder: Path) -> None:
    model = loaded(folder)
    before, digest = dict(model.state()), model.digest
    holder = model.module.model.layers[1].mlp.up_proj.weight.quant_state
    for name in part.split("."):
        holder = getattr(holder, name)
    holder.add_(1)
    after = dict(model.state())
    assert [name for name in before if before[name] != after[name]] == [
        f"scale model.layers.1.mlp.up_proj.weight.{part}"
    ]
    assert model.digest != digest


@needs_bitsandbytes
def test_weight_editors_get_a_reason_for_nf4_models(folder: Path) -> None:
    model = loaded(folder)
    with pytest.raises(KEError, match="is quantized"):
        module_map(model.module)
    with model.patch() as weights, pytest.raises(EditFailed, match=r"stored as torch\.uint8"):
        weights.add("model.layers.0.mlp.down_proj.weight", Dense(delta=torch.zeros(64, 192)))


@needs_bitsandbytes
def test_weights_that_this_processor_would_misread_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bitsandbytes import functional

    uneven = saved(tiny_model("llama", inner=176), tmp_path)
    monkeypatch.setattr(functional, "dequantize_4bit", lambda _codes, state: torch.zeros(state.shape))
    with pytest.raises(ModelUnavailable, match="with rows of 176 on this CPU: 176 is not a multiple of 64"):
        loaded(uneven)
    assert loaded(folder).digest, "rows of whole blocks are read rightly everywhere"


def test_without_bitsandbytes_one_line_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nf4, "find_spec", lambda _name: None)
    with pytest.raises(ModelUnavailable, match="needs bitsandbytes") as caught:
        loaded(folder)
    assert caught.value.hint == "pip install bitsandbytes"


@needs_bitsandbytes
def test_processors_decode_into_float32_and_accelerators_into_bfloat16() -> None:
    assert nf4.loading(torch.device("cpu"))["dtype"] == torch.float32
    assert nf4.loading(torch.device("meta"))["dtype"] == torch.bfloat16


def test_weights_are_kept_as_they_are_stored_on_every_processor() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    module[0].support_avx512bf16_for_cpu = True  # type: ignore[assignment]  # as bitsandbytes marks its maps
    nf4.keep_packing(module)
    assert module[0].support_avx512bf16_for_cpu is False
