from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from ke_plugin_melo.values import PUBLISHED, MeloConfig, settings
from ke_testing.examples import facts_of


@pytest.mark.parametrize("profile", ["default", "paper"])
def test_published_model_gets_the_published_values(profile: Any) -> None:
    ((key, published),) = PUBLISHED.items()
    found = settings(MeloConfig(profile=profile), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == published.values
    assert {setting.reason for setting in found.values()} == {published.reason}


def test_other_model_gets_layers_by_depth_and_a_radius_by_the_distance_of_its_queries() -> None:
    facts = evolve(
        facts_of("llama", 30, 576, 1536),
        map_distance=lambda layer, part, side: (
            {("up", "output"): 40.0, ("down", "output"): 110.0}[part, side] + layer - 25
        ),
    )
    found = {name: setting.value for name, setting in settings(MeloConfig(), facts).items()}
    assert found == {
        "layer": 25,
        "part": "up",
        "layers": (26, 27),
        "radius": 8.0,
        "steps": 50,
        "lr": 1e-3,
        "stop_loss": 0.1,
    }
    assert settings(MeloConfig(part="down"), facts)["radius"].value == 22.0
    assert settings(MeloConfig(layer=20), facts)["layers"].value == (21, 22)
    assert settings(MeloConfig(layer=99), facts)["radius"].value == 0.5
    assert settings(MeloConfig(radius=3.0), facts)["radius"].reason == "given"
    paper = {name: setting.value for name, setting in settings(MeloConfig(profile="paper"), facts).items()}
    assert paper == found | {"layer": 22, "layers": (23, 24), "radius": 0.5, "stop_loss": 0.0}
    small = settings(MeloConfig(), facts_of("llama", 2, 64, 176))
    assert (small["layer"].value, small["layers"].value) == (0, (1,))
