"""Published and derived targets and passes, each with its reason."""

from __future__ import annotations

import pytest

from ke_core.plugin import ModelFacts
from ke_plugin_lora import LoraConfig, settings
from ke_testing.examples import facts_of


@pytest.mark.parametrize(
    ("known", "targets", "steps"),
    [
        (facts_of("gpt2", 48, 1600, 6400, rms=False), ("c_attn",), 30),
        (facts_of("gptj", 28, 4096, 16384, rms=False), ("fc_in", "fc_out"), 50),
        (facts_of("llama", 32, 4096, 11008), ("q_proj", "v_proj"), 70),
        (facts_of("llama", 32, 4096, 14336), ("q_proj", "v_proj"), 70),
        (facts_of("llama", 28, 3072, 8192), ("q_proj", "v_proj"), 70),
        (facts_of("llama", 16, 2048, 8192), ("q_proj", "v_proj"), 70),
        (facts_of("qwen2", 28, 3584, 18944), ("q_proj", "v_proj"), 60),
    ],
)
def test_published_values_are_used(known: ModelFacts, targets: tuple[str, ...], steps: int) -> None:
    found = settings(LoraConfig(), known)
    assert (found["targets"].value, found["steps"].value) == (targets, steps)
    assert all(setting.reason.startswith("published for") for setting in found.values())


def test_reason_states_the_passes_of_llama_3_1() -> None:
    assert "50 passes for LLaMA-3.1-8B" in settings(LoraConfig(), facts_of("llama", 32, 4096, 14336))["steps"].reason


def test_unknown_model_gets_pefts_targets() -> None:
    found = settings(LoraConfig(), facts_of("gpt_neox", 6, 512, 2048, rms=False))
    assert found["targets"].value == ("query_key_value",)
    assert found["steps"].value == 50


def test_family_unknown_to_peft_gets_its_mlp_projections() -> None:
    found = settings(LoraConfig(), facts_of("nobody-knows", 6, 512, 2048))
    assert found["targets"].value == ()
    assert "MLP output projection" in found["targets"].reason


def test_default_rank_alpha_dropout_and_rate_are_published() -> None:
    config = LoraConfig()
    assert (config.rank, config.alpha, config.dropout, config.lr) == (8, 32, 0.1, 5e-3)
