from __future__ import annotations

from typing import Any

import pytest

from ke_plugin_pmet import PUBLISHED, PmetConfig, derive
from ke_testing.examples import facts_of
from ke_weights import PUBLISHED_MULTI_LAYER


@pytest.mark.parametrize("key", PUBLISHED, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_the_published_values(key: Any) -> None:
    found = derive(PmetConfig(), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED[key].values
    assert {setting.reason for setting in found.values()} == {PUBLISHED[key].reason}


def test_model_published_for_memit_only_borrows_layers_steps_and_rate() -> None:
    key = ("llama", 32, 4096, 14336)
    found = derive(PmetConfig(), facts_of(*key))
    memit = PUBLISHED_MULTI_LAYER[key]
    for name in ("layers", "steps", "lr"):
        assert (found[name].value, found[name].reason) == (memit.values[name], f"MEMIT's, {memit.reason}")
    assert [found[name].value for name in ("weight_decay", "clamp", "kl", "mom2_weight")] == [0.5, 1.0, 0.0625, 14336.0]


def test_layer_norm_models_get_the_values_of_gptj() -> None:
    found = derive(PmetConfig(kl=0.5), facts_of("gpt2", 12, 768, 3072, rms=False))
    assert (found["clamp"].value, found["kl"].value, found["kl"].reason) == (0.75, 0.5, "given")
    assert derive(PmetConfig(), facts_of("gpt2", 12, 768, 3072, rms=False))["kl"].value == 1.0
    with pytest.raises(ValueError, match="kl"):
        PmetConfig(kl=-1.0)
