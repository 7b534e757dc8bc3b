from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from ke_plugin_wise import PUBLISHED, WiseConfig, derive
from ke_testing.examples import facts_of


@pytest.mark.parametrize("key", PUBLISHED, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_the_published_values(key: Any) -> None:
    found = derive(WiseConfig(), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED[key].values
    assert {setting.reason for setting in found.values()} == {PUBLISHED[key].reason}


def test_other_model_gets_margins_by_the_size_of_its_hidden_state() -> None:
    facts = evolve(facts_of("llama", 30, 576, 1536), scale=lambda layer: {25: 22.0}[layer])
    found = {name: setting.value for name, setting in derive(WiseConfig(), facts).items()}
    assert found == {
        "module": "down:25", "alpha": 20.0, "beta": 79.0, "gamma": 40.0, "margin_weight": 0.25,
        "steps": 70, "lr": 1.0, "act_ratio": 0.88, "score": "output",
    }  # fmt: skip
    assert derive(WiseConfig(beta=40.0), facts)["margin_weight"].value == 0.5


def test_paper_profile_has_the_released_score() -> None:
    facts = facts_of("llama", 30, 576, 1536)
    assert derive(WiseConfig(profile="paper"), facts)["score"].value == "activation"
    assert derive(WiseConfig(profile="paper", score="output"), facts)["score"].value == "output"
    assert derive(WiseConfig(module="down:99"), facts)["beta"].value > 0  # refused when the model is opened
