from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from ke_core.plugin import BadConfig
from ke_plugin_hf.testing import tiny_model
from ke_plugin_ultraedit import PUBLISHED, UltraEditConfig, derive
from ke_testing.examples import facts_of
from ke_weights.plugin import find_parts, named_maps


@pytest.mark.parametrize("key", PUBLISHED, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_the_published_values(key: Any) -> None:
    found = derive(UltraEditConfig(), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED[key].values
    assert {setting.reason for setting in found.values()} == {PUBLISHED[key].reason}


def test_other_model_gets_layers_by_depth_and_eta_by_the_hidden_state() -> None:
    facts = evolve(facts_of("llama", 30, 576, 1536), scale=lambda layer: {28: 30.0, 29: 34.0}[layer])
    found = derive(UltraEditConfig(), facts)
    assert found["modules"].value == ("up:19-28",)
    assert found["eta"].value == 2.1e-4  # 0.004 * 30 / 576
    assert derive(UltraEditConfig(modules=("down:3", "down:29")), facts)["eta"].value == 8.9e-5  # 0.004 * 34 / 1536
    assert derive(UltraEditConfig(modules=("up:40",)), facts)["eta"].value == 1e-6
    given = derive(UltraEditConfig(modules=("up:3",), eta=0.5), facts)
    assert [(one.value, one.reason) for one in given.values()] == [(("up:3",), "given"), (0.5, "given")]


def test_entries_name_the_linear_maps_in_the_order_of_the_model() -> None:
    llama = find_parts(tiny_model("llama").module)
    assert named_maps(llama, ("down:1", "gate:0-1", "up:1", "up:1"), "ultraedit") == (
        "model.layers.0.mlp.gate_proj",
        "model.layers.1.mlp.gate_proj",
        "model.layers.1.mlp.up_proj",
        "model.layers.1.mlp.down_proj",
    )
    assert named_maps(find_parts(tiny_model("gpt2").module), ("up:2",), "ultraedit") == ("transformer.h.2.mlp.c_fc",)


@pytest.mark.parametrize(
    ("entry", "why"),
    [("mlp:1", "'mlp:1'"), ("up:2-1", "'up:2-1'"), ("up:99", "'up:99'"), ("gate:1", "layer 1 .* has no gate")],
)
def test_entry_that_does_not_fit_is_rejected(entry: str, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        named_maps(find_parts(tiny_model("gpt2").module), (entry,), "ultraedit")
