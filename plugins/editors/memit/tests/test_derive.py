from __future__ import annotations

from typing import Any

import pytest

from ke_plugin_memit import MemitConfig, derive
from ke_testing.examples import facts_of
from ke_weights import PUBLISHED_MULTI_LAYER


@pytest.mark.parametrize("key", PUBLISHED_MULTI_LAYER, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_its_published_lambda(key: Any) -> None:
    found = derive(MemitConfig(), facts_of(*key))
    assert found["mom2_weight"].value == (20_000 if key[0] in ("gpt2", "gpt_neox") else 15_000)
    assert PUBLISHED_MULTI_LAYER[key].source in found["mom2_weight"].reason
    assert found["layers"].value == PUBLISHED_MULTI_LAYER[key].values["layers"]


def test_derived_lambda_is_the_key_dimension() -> None:
    weights = [derive(MemitConfig(), facts_of("llama", 30, 64, inner))["mom2_weight"].value for inner in (176, 1536)]
    assert weights == [176.0, 1536.0]
    published = [
        derive(MemitConfig(), facts_of(*key))["mom2_weight"].value / key[3]
        for key in PUBLISHED_MULTI_LAYER
        if key[0] != "gpt2"
    ]
    assert all(0.75 < ratio < 2 for ratio in published)


def test_other_size_of_a_published_family_gets_a_derived_lambda() -> None:
    found = derive(MemitConfig(), facts_of("llama", 16, 2048, 8192))["mom2_weight"]
    assert found.value == 8192
    assert "key dimension, 8192" in found.reason


def test_given_lambda_wins() -> None:
    found = derive(MemitConfig(mom2_weight=7.0), facts_of("gptj", 28, 4096, 16384))["mom2_weight"]
    assert (found.value, found.reason) == (7.0, "given")
    with pytest.raises(ValueError, match="mom2_weight"):
        MemitConfig(mom2_weight=0.0)
