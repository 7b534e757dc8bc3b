"""Published and derived hyperparameters, each with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from ke_plugin_ft import FtConfig, settings
from ke_plugin_ft.values import CONSTRAINED, UNBOUNDED
from ke_testing.examples import facts_of

XL, GPTJ = facts_of("gpt2", 48, 1600, 6400), facts_of("gptj", 28, 4096, 16384)
SMOL = facts_of("llama", 30, 576, 1536)


def test_published_values_are_used() -> None:
    found = settings(FtConfig(), XL)
    assert {name: setting.value for name, setting in found.items()} == {
        "layers": (0,), "epochs": 25, "lr": 5e-4, "objective": "prompt-last", "eps": 5e-4, "constrained": True,
        "eos": False, "batch": 64,
    }  # fmt: skip
    assert found["eps"].reason == "published for GPT-2 XL by ROME's authors"


def test_bounded_and_unbounded_fine_tuning_have_different_layers() -> None:
    assert settings(FtConfig(), GPTJ)["layers"].value == (0,)
    free = settings(FtConfig(constrained=False), GPTJ)
    assert free["layers"].value == (21,)
    assert "eps" not in free


@pytest.mark.parametrize(
    ("key", "source"),
    [
        (("llama", 32, 4096, 14336), "LLaMA-3-8B by EasyEdit and AlphaEdit's authors"),
        (("llama", 28, 3072, 8192), "LLaMA-3.2-3B by EasyEdit"),
    ],
)
def test_llama_3_has_published_values_only_for_unbounded_fine_tuning(
    key: tuple[str, int, int, int], source: str
) -> None:
    free = settings(FtConfig(constrained=False), facts_of(*key))
    published = {name: free[name] for name in ("layers", "epochs", "lr", "objective")}
    assert [setting.value for setting in published.values()] == [(21,), 25, 5e-4, "prompt-last"]
    assert {setting.reason for setting in published.values()} == {f"published for {source}"}
    assert "eps" not in free
    assert "66%" in settings(FtConfig(), facts_of(*key))["layers"].reason


def test_unknown_model_gets_derived_values_with_reasons() -> None:
    found = settings(FtConfig(), SMOL)
    assert found["layers"].value == (20,)
    assert found["eps"].value == 2e-3
    assert all(setting.reason for setting in found.values())


@pytest.mark.parametrize(
    ("inner", "eps"), [(512, 2e-3), (4096, 2e-3), (5120, 1e-3), (6400, 5e-4), (16384, 5e-5), (30000, 5e-5)]
)
def test_bound_depends_on_the_key_dimension(inner: int, eps: float) -> None:
    assert settings(FtConfig(), facts_of("other", 20, 1000, inner))["eps"].value == pytest.approx(eps)


def test_bound_decreases_between_published_dimensions() -> None:
    found = [
        settings(FtConfig(), facts_of("other", 20, 1000, inner))["eps"].value for inner in (6400, 9000, 12000, 16384)
    ]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 4


def test_given_values_win() -> None:
    found = settings(FtConfig(layers=(3,), eps=0.1), XL)
    assert (found["layers"].value, found["eps"].value, found["eps"].reason) == ((3,), 0.1, "given")


@pytest.mark.parametrize("table", [CONSTRAINED, UNBOUNDED], ids=["bounded", "free"])
def test_published_rates_use_prompt_last(table: Any) -> None:
    for published in table.values():
        assert published.values["objective"] == "prompt-last"
        assert "lr" in published.values


def test_unknown_model_uses_the_objective_target() -> None:
    found = settings(FtConfig(), SMOL)
    assert found["objective"].value == "target"
    assert found["lr"].reason == found["epochs"].reason == "published for every model with objective=prompt-last"


def test_objective_can_be_set_for_a_published_model() -> None:
    objective = settings(FtConfig(objective="target"), XL)["objective"]
    assert (objective.value, objective.reason) == ("target", "given")


@pytest.mark.parametrize(
    ("key", "layer"),
    [
        (("llama", 32, 4096, 14336), 22),
        (("qwen2", 28, 3584, 18944), 6),
        (("mistral", 32, 4096, 14336), 23),
        (("llama", 30, 576, 1536), 21),
        (("llama", 1, 64, 128), 0),
    ],
)
def test_breadth_first_has_its_own_layer_and_values(key: tuple[str, int, int, int], layer: int) -> None:
    found = settings(FtConfig(profile="locft-bf"), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == {
        "layers": (layer,), "epochs": 25, "lr": 5e-4, "objective": "target", "constrained": False, "eos": True,
        "batch": 100,
    }  # fmt: skip
    assert all(setting.reason for setting in found.values())


def test_breadth_first_can_be_bounded() -> None:
    assert settings(FtConfig(profile="locft-bf", constrained=True), SMOL)["eps"].value == 2e-3
