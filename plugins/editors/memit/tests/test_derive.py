from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve, fields

from ke_core.plugin import KEError
from ke_core.testing.tiny import tiny_model
from ke_core.weights import module_map
from ke_plugin_memit import MemitConfig
from ke_plugin_memit.derive import PUBLISHED, derive, from_shape, window


def stand_in(model_type: str, blocks: int, hidden: int, inner: int, *, rms: bool = True) -> Any:
    """As much of a module map as hyperparameters are derived from."""
    return SimpleNamespace(
        config=SimpleNamespace(model_type=model_type),
        layers=(None,) * blocks,
        hidden=hidden,
        inner=inner,
        rms_norm=rms,
        check_layers=lambda _layers: None,
    )


def scale_of(size: float) -> Any:
    return lambda _layer: size


@pytest.mark.parametrize("shape", PUBLISHED, ids=lambda shape: f"{shape[0]}-{shape[1]}-{shape[3]}")
def test_a_published_model_gets_its_published_values(shape: tuple[str, int, int, int]) -> None:
    found = derive(MemitConfig(), stand_in(*shape), scale_of(1.0))
    name, expected = PUBLISHED[shape]
    assert found == expected
    assert set(found.reasons) == {f.name for f in fields(type(found))} - {"reasons"}
    assert all(name in reason for reason in found.reasons.values())


def test_e13_another_size_of_the_family_gets_values_of_its_own() -> None:
    small = derive(MemitConfig(), stand_in("llama", 16, 2048, 8192), scale_of(1.0))
    assert small.layers[-1] == 5
    assert small.mom2_weight == 8192


def test_x4_a_name_or_path_plays_no_part() -> None:
    modules = stand_in("llama", 30, 576, 1536)
    modules.module = SimpleNamespace(name_or_path="somewhere/gpt-j-6b")
    assert derive(MemitConfig(), modules, scale_of(1.0)).layers == (4, 5, 6, 7, 8)


def test_given_values_win_and_say_so() -> None:
    given = MemitConfig(layers=(2, 3), lr=0.25, mom2_weight=7.0, weight_decay=0.0)
    found = derive(given, stand_in("gptj", 28, 4096, 16384), scale_of(1.0))
    assert (found.layers, found.lr, found.mom2_weight, found.weight_decay) == ((2, 3), 0.25, 7.0, 0.0)
    assert {name for name, reason in found.reasons.items() if reason == "given"} == {
        "layers", "lr", "mom2_weight", "weight_decay",
    }  # fmt: skip
    assert found.clamp == 0.75


def test_the_weight_of_old_keys_grows_with_the_length_of_a_key() -> None:
    assert [from_shape(blocks=30, inner=inner, rms=True).mom2_weight for inner in (176, 1536)] == [176.0, 1536.0]
    published = [
        settings.mom2_weight / shape[3] for shape, (_name, settings) in PUBLISHED.items() if shape[0] != "gpt2"
    ]
    assert all(0.75 < ratio < 2 for ratio in published)


@pytest.mark.parametrize(("size", "lr"), [(0.1, 0.5), (2.5, 0.5), (5.5, 1.1)])
def test_a_step_is_not_too_short_for_large_states(size: float, lr: float) -> None:
    found = derive(MemitConfig(), stand_in("llama", 30, 576, 1536), scale_of(size))
    assert found.lr == pytest.approx(lr)
    assert ("5.5" in found.reasons["lr"]) == (size == 5.5)
    assert derive(MemitConfig(lr=0.3), stand_in("llama", 30, 576, 1536), scale_of(size)).lr == 0.3


def test_norms_decide_how_far_z_may_go() -> None:
    rms, layer = from_shape(blocks=30, inner=64, rms=True), from_shape(blocks=30, inner=64, rms=False)
    assert (rms.clamp, rms.weight_decay) == (4.0, 1e-3)
    assert (layer.clamp, layer.weight_decay) == (0.75, 0.5)


@pytest.mark.parametrize("blocks", range(1, 90))
def test_layers_exist_for_every_depth(blocks: int) -> None:
    layers = window(blocks)
    assert list(layers) == list(range(layers[0], layers[-1] + 1))
    assert 0 <= layers[0] <= layers[-1] < blocks
    if blocks >= 4:
        assert layers[0] >= 1
        assert layers[-1] <= blocks - 2


def test_deep_models_get_the_windows_that_were_published() -> None:
    assert window(32)[-1] in (8, 9)
    assert window(28) == (4, 5, 6, 7, 8)
    assert window(30) == (4, 5, 6, 7, 8)


def test_a_real_model_is_derived_for() -> None:
    found = derive(MemitConfig(), module_map(tiny_model("gpt2").module), scale_of(1.0))
    assert (found.layers, found.mom2_weight, found.clamp) == ((1, 2), 176.0, 0.75)


def test_e13_layers_of_another_size_are_refused() -> None:
    with pytest.raises(KEError, match="13 do not fit a model of 4 layers"):
        derive(MemitConfig(layers=(13,)), module_map(tiny_model("llama").module), scale_of(1.0))


@pytest.mark.parametrize(
    "name", ["steps", "lr", "clamp", "mom2_weight", "tokens", "document_length", "template_length"]
)
def test_nothing_of_these_may_be_zero(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        evolve(MemitConfig(), **{name: 0})
