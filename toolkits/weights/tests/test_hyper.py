"""Hyperparameters: published ones, else derived from the shape; each with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve, fields_dict

from ke_core.plugin import BadConfig, ModelFacts, Shape, Trace
from ke_testing.examples import facts_of
from ke_weights.hyperparameters import (
    MultiLayerConfig,
    SingleLayerConfig,
    as_details,
    multi_layer_settings,
    single_layer_settings,
)
from ke_weights.published import PUBLISHED_MULTI_LAYER, PUBLISHED_SINGLE_LAYER

SMALL = ("llama", 30, 576, 1536)
TRACE = Trace(layer=7, layers=(5, 6, 7), rule="the largest effect")


def unmeasured(*key: Any) -> ModelFacts:
    """Facts of a missing model, whose states cannot be measured."""

    def scale(layer: int) -> float:
        raise AssertionError(layer)

    return evolve(facts_of(*key), scale=scale)


@pytest.mark.parametrize("key", PUBLISHED_MULTI_LAYER, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_has_its_published_layers(key: Any) -> None:
    found = multi_layer_settings(MultiLayerConfig(), unmeasured(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED_MULTI_LAYER[key].values
    assert all(PUBLISHED_MULTI_LAYER[key].source in setting.reason for setting in found.values())


@pytest.mark.parametrize("key", PUBLISHED_SINGLE_LAYER, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_has_its_published_layer(key: Any) -> None:
    found = single_layer_settings(SingleLayerConfig(), unmeasured(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED_SINGLE_LAYER[key].values


def test_models_of_the_papers_have_published_values() -> None:
    for key in (("gpt2", 48, 1600, 6400), ("gptj", 28, 4096, 16384), ("gpt_neox", 44, 6144, 24576),
                ("llama", 32, 4096, 11008), ("llama", 32, 4096, 14336), ("mistral", 32, 4096, 14336),
                ("qwen2", 28, 3584, 18944)):  # fmt: skip
        assert key in PUBLISHED_MULTI_LAYER
        assert key in PUBLISHED_SINGLE_LAYER


@pytest.mark.parametrize(
    ("table", "key", "others"),
    [
        (
            PUBLISHED_MULTI_LAYER,
            ("llama", 32, 4096, 11008),
            ["5-9 of Vicuna-7B", "decay of 0.5", "clamp of 0.75", "Tulu-7B"],
        ),
        (
            PUBLISHED_MULTI_LAYER,
            ("llama", 32, 4096, 14336),
            ["CompKE", "3-8", "rate of 0.5", "decay of 0.001", "clamp of 4"],
        ),
        (PUBLISHED_MULTI_LAYER, ("qwen2", 28, 3584, 18944), ["CompKE", "3-8", "15 steps"]),
        (
            PUBLISHED_SINGLE_LAYER,
            ("llama", 32, 4096, 11008),
            ["EasyEdit", "25 steps", "0.001", "mom2_adjustment off", "layer 9"],
        ),
        (PUBLISHED_SINGLE_LAYER, ("qwen2", 28, 3584, 18944), ["mom2_adjustment off", "CompKE uses 15 steps"]),
    ],
)
def test_reason_lists_other_published_values(table: Any, key: Any, others: list[str]) -> None:
    assert [other for other in others if other not in table[key].reason] == []


def test_borrowed_values_name_the_method_they_were_published_for() -> None:
    key = ("gptj", 28, 4096, 16384)
    borrowed = PUBLISHED_MULTI_LAYER[key].borrowed_from("MEMIT")
    assert borrowed.reason == "MEMIT's, published for GPT-J by MEMIT's authors"
    assert borrowed.values == PUBLISHED_MULTI_LAYER[key].values


def test_other_sizes_of_a_family_have_derived_values() -> None:
    assert multi_layer_settings(MultiLayerConfig(), facts_of("llama", 16, 2048, 8192))["layers"].value == (1, 2, 3, 4)
    assert single_layer_settings(SingleLayerConfig(), facts_of("llama", 16, 2048, 8192))["layer"].value == 3


def test_shape_has_no_name_or_path() -> None:
    assert set(fields_dict(Shape)) == {"family", "blocks", "hidden", "inner", "rms_norm"}
    assert multi_layer_settings(MultiLayerConfig(), facts_of(*SMALL))["layers"].value == (4, 5, 6, 7, 8)


def test_given_values_have_priority() -> None:
    given = MultiLayerConfig(layers=(2, 3), lr=0.25, weight_decay=0.0)
    found = multi_layer_settings(given, facts_of("gptj", 28, 4096, 16384))
    assert [found[name].value for name in ("layers", "lr", "weight_decay")] == [(2, 3), 0.25, 0.0]
    assert {name for name, setting in found.items() if setting.reason == "given"} == {"layers", "lr", "weight_decay"}
    assert found["clamp"].value == 0.75


@pytest.mark.parametrize(("size", "lr"), [(0.1, 0.5), (2.5, 0.5), (5.5, 1.1)])
def test_learning_rate_grows_with_the_scale_of_states(size: float, lr: float) -> None:
    found = multi_layer_settings(MultiLayerConfig(), facts_of(*SMALL, size=size))
    assert found["lr"].value == pytest.approx(lr)
    assert ("5.5" in found["lr"].reason) == (size == 5.5)
    assert multi_layer_settings(MultiLayerConfig(lr=0.3), facts_of(*SMALL, size=size))["lr"].value == 0.3
    assert single_layer_settings(SingleLayerConfig(), facts_of(*SMALL, size=size))["lr"].value == pytest.approx(lr)


def test_scale_is_measured_at_the_edited_layer() -> None:
    asked: list[int] = []
    model = evolve(facts_of(*SMALL), scale=lambda layer: asked.append(layer) or 1.0)
    multi_layer_settings(MultiLayerConfig(layers=(9, 11)), model)
    single_layer_settings(SingleLayerConfig(layer=4), model)
    single_layer_settings(SingleLayerConfig(layer=99), model)  # refused where the model is opened
    assert asked == [11, 4]


def test_clamp_depends_on_the_norm_kind() -> None:
    rms, layer = (multi_layer_settings(MultiLayerConfig(), facts_of(*SMALL, rms=rms)) for rms in (True, False))
    assert (rms["clamp"].value, rms["weight_decay"].value) == (4.0, 1e-3)
    assert (layer["clamp"].value, layer["weight_decay"].value) == (0.75, 0.5)
    assert "RMSNorm" in rms["clamp"].reason
    assert "LayerNorm" in layer["clamp"].reason


@pytest.mark.parametrize("blocks", range(1, 90))
def test_layers_exist_for_every_depth(blocks: int) -> None:
    layers = multi_layer_settings(MultiLayerConfig(), facts_of("llama", blocks, 64, 176))["layers"].value
    assert list(layers) == list(range(layers[0], layers[-1] + 1))
    assert 0 <= layers[0] <= layers[-1] < blocks
    for rms in (True, False):
        layer = single_layer_settings(SingleLayerConfig(), facts_of("llama", blocks, 64, 176, rms=rms))["layer"].value
        assert 0 <= layer < blocks
        if blocks >= 4:
            assert layers[0] >= 1
            assert layers[-1] <= blocks - 2
            assert 1 <= layer <= blocks - 2


def test_derived_layers_of_deep_models_match_published_ones() -> None:
    windows = {
        blocks: multi_layer_settings(MultiLayerConfig(), facts_of("olmo", blocks, 64, 176))["layers"].value
        for blocks in (28, 30, 32)
    }
    assert windows[32][-1] in (8, 9)
    assert windows[28] == windows[30] == (4, 5, 6, 7, 8)
    rotary, learned = (
        single_layer_settings(SingleLayerConfig(), facts_of("olmo", blocks, 64, 176, rms=rms))["layer"].value
        for blocks, rms in ((28, True), (48, False))
    )
    assert (rotary, learned) == (5, 17)


def test_option_trace_selects_the_traced_layers() -> None:
    model = facts_of("gptj", 28, 4096, 16384, trace=TRACE)
    window = multi_layer_settings(MultiLayerConfig(layers="trace"), model)["layers"]
    layer = single_layer_settings(SingleLayerConfig(layer="trace"), model)["layer"]
    assert (window.value, layer.value) == ((5, 6, 7), 7)
    assert window.reason == layer.reason == "causal tracing: the largest effect"
    model = facts_of("gptj", 28, 4096, 16384, trace=evolve(TRACE, rule="not traced (8 facts)", traced=False))
    assert multi_layer_settings(MultiLayerConfig(layers="trace"), model)["layers"].reason == "not traced (8 facts)"
    for settings, config in (
        (multi_layer_settings, MultiLayerConfig(layers="trace")),
        (single_layer_settings, SingleLayerConfig(layer="trace")),
    ):
        with pytest.raises(BadConfig, match="no causal trace of this model was found") as caught:
            settings(config, facts_of(*SMALL))  # type: ignore[operator]
        assert "ke trace" in caught.value.hint


def test_details_are_json_values_with_reasons() -> None:
    details = as_details(multi_layer_settings(MultiLayerConfig(), facts_of(*SMALL)))
    assert details["layers"] == [4, 5, 6, 7, 8]
    assert set(details["reasons"]) == set(details) - {"reasons"}


@pytest.mark.parametrize("name", ["steps", "lr", "clamp", "tokens", "document_length", "template_length"])
def test_options_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        evolve(MultiLayerConfig(), **{name: 0})
