from __future__ import annotations

from typing import Any

import pytest
import torch
from attrs import evolve

from ke_plugin_grace.editor import tokens_of
from ke_plugin_grace.values import PUBLISHED, GraceConfig, settings
from ke_plugin_hf.testing import Family, tiny_model
from ke_testing.examples import MOVE_TOWER, facts_of
from ke_testing.fakes import make_session
from ke_weights.plugin import find_parts, model_facts, read_corpus, rewrite
from ke_weights.testing.stateful import chat_model


@pytest.mark.parametrize("profile", ["default", "paper"])
@pytest.mark.parametrize("key", PUBLISHED, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_the_published_values(key: Any, profile: Any) -> None:
    found = settings(GraceConfig(profile=profile), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED[key].values
    assert {setting.reason for setting in found.values()} == {PUBLISHED[key].reason}


def test_other_model_gets_a_layer_by_depth_and_a_radius_by_the_distance_of_its_keys() -> None:
    facts = evolve(
        facts_of("llama", 30, 576, 1536),
        map_distance=lambda layer, part, side: {("down", "input"): 23.0, ("up", "input"): 4.8}[part, side] + layer - 25,
    )
    found = {name: setting.value for name, setting in settings(GraceConfig(), facts).items()}
    assert found == {"layer": 25, "part": "down", "steps": 50, "lr": 1.0, "replacement": "last", "eps": 4.6}
    assert settings(GraceConfig(part="up"), facts)["eps"].value == 0.96
    assert settings(GraceConfig(layer=24), facts)["eps"].value == 4.4
    assert settings(GraceConfig(profile="paper"), facts)["eps"].value == 1.0
    assert settings(GraceConfig(eps=3.0), facts)["eps"].reason == "given"
    assert settings(GraceConfig(layer=99), facts)["eps"].value == 1.0


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_distance_of_states_is_the_median_over_pairs_of_tokens(family: Family, side: str, tmp_path: Any) -> None:
    model = tiny_model(family)
    modules = find_parts(model.module)
    found = model_facts(make_session(model, root=tmp_path), modules).map_distance(1, "down", side)
    ids, seen = model.encode(read_corpus().documents[0])[:32], []
    handle = modules.layers[1].projection.register_forward_hook(
        lambda _module, args, output: seen.append((args[0] if side == "input" else output)[0, 1:])
    )
    model.module(input_ids=torch.tensor([ids]))
    handle.remove()
    (states,) = seen
    pairs = [float((states[i] - states[j]).norm()) for i in range(31) for j in range(i)]
    assert found == pytest.approx(sorted(pairs)[len(pairs) // 2], rel=0.06)


def test_target_of_a_chat_model_is_the_answer_that_it_writes() -> None:
    chat, made = chat_model(), rewrite(MOVE_TOWER)
    tokens = tokens_of(chat, made)
    assert tokens.prompt == tuple(chat.encode(made.prompt))
    assert list(tokens.target) == chat.tokenizer(made.target, add_special_tokens=False)["input_ids"]
