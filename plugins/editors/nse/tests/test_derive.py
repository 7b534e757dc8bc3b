from __future__ import annotations

from typing import Any

import pytest

from ke_plugin_nse import PUBLISHED, NseConfig, derive
from ke_testing.examples import facts_of
from ke_weights import PUBLISHED_MULTI_LAYER


@pytest.mark.parametrize("key", PUBLISHED, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_the_published_values(key: Any) -> None:
    found = derive(NseConfig(), facts_of(*key))
    shared = PUBLISHED_MULTI_LAYER[key].values
    assert {name: setting.value for name, setting in found.items()} == {**shared, **PUBLISHED[key].values}
    assert {setting.reason for setting in found.values()} == {PUBLISHED[key].reason}


def test_limits_of_other_models_follow_from_the_norm_of_a_state() -> None:
    """|h| is 2 sqrt(576) = 48 here, and the clamp is 4."""
    found = derive(NseConfig(), facts_of("llama", 30, 576, 1536, size=2.0))
    assert (found["alpha"].value, found["upper"].value) == (12.0, 380.0)
    assert "layer 8, 48" in found["alpha"].reason
    assert (found["p"].value, found["passes"].value, found["mom2_weight"].value) == (0.8, 2, 1536.0)
    given = derive(NseConfig(alpha=0.0, upper=9.0, clamp=1.0), facts_of("llama", 30, 576, 1536, size=2.0))
    assert [(given[name].value, given[name].reason) for name in ("alpha", "upper")] == [(0.0, "given"), (9.0, "given")]


def test_model_published_for_memit_only_borrows_layers_and_target() -> None:
    key = ("qwen2", 28, 3584, 18944)
    found, memit = derive(NseConfig(), facts_of(*key)), PUBLISHED_MULTI_LAYER[key]
    for name, value in memit.values.items():
        assert (found[name].value, found[name].reason) == (value, f"MEMIT's, {memit.reason}")
    assert found["mom2_weight"].value == 18944.0


def test_fractions_outside_the_unit_interval_are_refused() -> None:
    for p in (0.0, 1.1):
        with pytest.raises(ValueError, match="'p'"):
            NseConfig(p=p)
