"""Published and derived targets and epochs, each with its reason."""

from __future__ import annotations

import pytest

from ke_core.plugin import ModelFacts
from ke_plugin_lora import LoraConfig, settings
from ke_testing.examples import facts_of

SMOLLM2 = facts_of("llama", 30, 576, 1536)


@pytest.mark.parametrize(
    ("known", "targets", "epochs"),
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
def test_published_values_are_used(known: ModelFacts, targets: tuple[str, ...], epochs: int) -> None:
    found = settings(LoraConfig(), known)
    assert (found["targets"].value, found["epochs"].value) == (targets, epochs)
    assert all(setting.reason.startswith("published for") for setting in found.values())


def test_reason_states_the_epochs_of_llama_3_1() -> None:
    assert "50 epochs for LLaMA-3.1-8B" in settings(LoraConfig(), facts_of("llama", 32, 4096, 14336))["epochs"].reason


@pytest.mark.parametrize("config", [LoraConfig(), LoraConfig(profile="paper")], ids=["default", "paper"])
def test_model_with_published_values_gets_all_of_them(config: LoraConfig) -> None:
    found = settings(config, facts_of("llama", 32, 4096, 14336))
    values = {name: setting.value for name, setting in found.items()}
    assert values == {
        "targets": ("q_proj", "v_proj"), "layers": (), "epochs": 70, "rank": 8, "alpha": 32.0, "dropout": 0.1,
        "lr": 5e-3, "stop_loss": 0.0,
    }  # fmt: skip


def test_profile_paper_has_published_settings_for_every_model() -> None:
    found = settings(LoraConfig(profile="paper"), facts_of("gpt_neox", 6, 512, 2048, rms=False))
    assert (found["targets"].value, found["epochs"].value) == (("query_key_value",), 50)
    assert (found["lr"].value, found["alpha"].value, found["stop_loss"].value) == (5e-3, 32.0, 0.0)


def test_other_models_get_a_lower_rate_and_stop_early() -> None:
    found = settings(LoraConfig(), SMOLLM2)
    paper = settings(LoraConfig(profile="paper"), SMOLLM2)
    step = {
        name: one["lr"].value * one["alpha"].value / one["rank"].value for name, one in (("d", found), ("p", paper))
    }
    assert step["d"] < step["p"] / 5
    assert found["stop_loss"].value > 0
    assert found["dropout"].value == 0
    assert all(setting.reason for setting in found.values())
    assert settings(LoraConfig(lr=0.1), SMOLLM2)["lr"].value == 0.1


@pytest.mark.parametrize("rank", [None, 2, 64])
def test_derived_alpha_leaves_the_adapter_unscaled_at_any_rank(rank: int | None) -> None:
    found = settings(LoraConfig(rank=rank), SMOLLM2)
    assert found["rank"].value == (rank or 8)
    assert found["alpha"].value / found["rank"].value == 1
    assert isinstance(found["alpha"].value, float)
    assert settings(LoraConfig(rank=rank, alpha=3.0), SMOLLM2)["alpha"].value == 3.0


@pytest.mark.parametrize(
    ("config", "facts"),
    [(LoraConfig(rank=64), facts_of("llama", 32, 4096, 14336)), (LoraConfig(rank=64, profile="paper"), SMOLLM2)],
)
def test_published_alpha_does_not_depend_on_the_rank(config: LoraConfig, facts: ModelFacts) -> None:
    assert settings(config, facts)["alpha"].value == 32.0


def test_family_unknown_to_peft_gets_its_mlp_projections() -> None:
    found = settings(LoraConfig(profile="paper"), facts_of("nobody-knows", 6, 512, 2048))
    assert found["targets"].value == ()
    assert "MLP output projection" in found["targets"].reason
