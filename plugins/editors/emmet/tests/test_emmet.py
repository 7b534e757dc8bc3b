"""EMMET's closed form, and the editor against a reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve

from ke_core.plugin import EditFailed
from ke_plugin_emmet import EmmetConfig, derive
from ke_plugin_emmet.editor import Emmet, constrained_update
from ke_plugin_hf.testing import tiny_model
from ke_testing.editor import unchanged
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, facts_of
from ke_testing.fakes import make_session
from ke_weights import PUBLISHED_MULTI_LAYER
from ke_weights.plugin import KeyCovariance, TargetSettings, ridge_update
from ke_weights.testing.reference import random_covariance, random_problem
from ke_weights.testing.reference_edits import ReferenceModel, off
from ke_weights.testing.weights import whole_of

F, D, LAYER = 48, 20, 2
EDITS = (MOVE_TOWER, MOVE_GATE)
SMALL = EmmetConfig(
    tokens=1500, document_length=64, template_length=6, layer=LAYER, steps=6, lr=0.5, weight_decay=0.5, clamp=0.25,
)  # fmt: skip
TARGET = TargetSettings(layer=LAYER, steps=6, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.25)


@pytest.fixture
def covariance() -> KeyCovariance:
    return random_covariance()


@pytest.mark.parametrize("count", [1, 7, 40])
def test_without_softening_every_edit_is_exact(covariance: KeyCovariance, count: int) -> None:
    keys, residual = random_problem(count)
    assert off(whole_of(constrained_update(covariance, keys, residual, 1e5, 0.0)) @ keys, residual) < 1e-10


def test_update_changes_other_keys_least_of_all_exact_updates(covariance: KeyCovariance) -> None:
    keys, residual = random_problem(7)
    update = whole_of(constrained_update(covariance, keys, residual, 3.0, 0.0))
    draw = torch.randn(D, F, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    aside = draw - draw @ keys @ torch.linalg.pinv(keys)  # changes no edit
    assert float((aside @ keys).norm()) < 1e-10
    least = float(torch.trace(update @ covariance.matrix @ update.T))
    for step in (1e-2, -1e-2):
        other = update + step * aside
        assert float(torch.trace(other @ covariance.matrix @ other.T)) > least


@pytest.mark.parametrize("count", [1, 7, 30])
@pytest.mark.parametrize("weight", [1.0, 50.0])
def test_weight_one_and_softening_lambda_equal_memit(covariance: KeyCovariance, count: int, weight: float) -> None:
    """In general, lambda is weight times softening."""
    keys, residual = random_problem(count)
    memit = whole_of(ridge_update(covariance, keys, residual, weight))
    assert off(whole_of(constrained_update(covariance, keys, residual, 1.0, weight)), memit) < 1e-10
    assert off(whole_of(constrained_update(covariance, keys, residual, 10 * weight, 0.1)), memit) < 1e-10


def test_one_edit_without_softening_equals_rome(covariance: KeyCovariance) -> None:
    keys, residual = random_problem(1)
    along = torch.linalg.solve(covariance.matrix, keys[:, 0])
    assert (
        off(
            whole_of(constrained_update(covariance, keys, residual, 7.0, 0.0)),
            torch.outer(residual[:, 0], along) / (keys[:, 0] @ along),
        )
        < 1e-10
    )


@pytest.mark.parametrize("which", ["one key twice", "more edits than dimensions"])
def test_singular_system_is_an_error(covariance: KeyCovariance, which: str) -> None:
    keys, residual = random_problem(60 if "more" in which else 5)
    if "twice" in which:
        keys[:, 4] = keys[:, 1] * (1 + 1e-8)
    with pytest.raises(EditFailed, match="the system of the edits' keys is singular") as caught:
        constrained_update(covariance, keys, residual, 1e5, 0.0)
    assert len(str(caught.value).splitlines()) == 1
    assert bool(whole_of(constrained_update(covariance, keys, residual, 1e5, 0.1)).isfinite().all())


@pytest.mark.parametrize("softening", [0.0, 0.1])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_update_equals_the_reference(family: str, softening: float, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")  # type: ignore[arg-type]
    plain = ReferenceModel(model, family)
    before = plain.weight(LAYER)
    with Emmet(evolve(SMALL, softening=softening)).edit(make_session(model, root=tmp_path), EDITS) as edited:
        details: Any = edited.details
        change = plain.change(LAYER, before)
    plain.templates = details["templates"]
    keys = torch.stack([plain.grouped_key(edit, LAYER) for edit in EDITS], 1)
    z = torch.stack([plain.target(edit, LAYER, TARGET, mlp=False).z for edit in EDITS], 1)
    residual = z - torch.stack([plain.state(edit, LAYER) for edit in EDITS], 1)
    inverse = torch.linalg.inv(176 / 0.1 * plain.covariance(LAYER, 1500, 64))
    small = torch.linalg.inv(keys.T @ inverse @ keys + softening * torch.eye(2, dtype=torch.float64))
    assert off(change, residual @ small @ keys.T @ inverse) < (1e-9 if family == "gpt2" else 1e-4)
    if softening == 0:
        assert off(change @ keys, residual) < (1e-9 if family == "gpt2" else 1e-4)


def test_repeated_edit_without_softening_is_an_error(tmp_path: Path) -> None:
    model = tiny_model("llama")
    exact = Emmet(evolve(SMALL, softening=0.0))
    with (
        unchanged(model),
        pytest.raises(EditFailed, match="singular"),
        exact.edit(make_session(model, root=tmp_path), [MOVE_TOWER, evolve(MOVE_TOWER, id="again")]),
    ):
        pass


OWN = {
    ("gpt2", 48, 1600, 6400): (17, 10_000, "a weight of 1000"),
    ("gptj", 28, 4096, 16384): (5, 100_000, "a weight of 10000"),
    ("llama", 32, 4096, 11008): (5, 100_000, "a weight of 10000, a weight decay of 0.5 and a clamp of 0.75"),
    ("llama", 28, 3072, 8192): (5, 100_000, ""),
}
"""Models with published configurations of EMMET: layer, w, and the differing values of its authors."""


@pytest.mark.parametrize("key", OWN, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_its_layer_and_weight(key: Any) -> None:
    found = derive(EmmetConfig(), facts_of(*key))
    layer, weight, other = OWN[key]
    assert (found["layer"].value, found["mom2_weight"].value) == (layer, weight)
    for name in ("steps", "lr", "weight_decay", "clamp"):
        assert found[name].value == PUBLISHED_MULTI_LAYER[key].values[name]
    assert all(one.reason.startswith("published for") and "by EasyEdit" in one.reason for one in found.values())
    assert other in found["mom2_weight"].reason


@pytest.mark.parametrize(
    "key", [key for key in PUBLISHED_MULTI_LAYER if key not in OWN], ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}"
)
def test_model_published_for_memit_only_gets_its_target(key: Any) -> None:
    found = derive(EmmetConfig(), facts_of(*key, rms=key[0] != "gpt_neox"))
    assert found["mom2_weight"].value == pytest.approx(10 * key[3])
    assert found["layer"].value == round((0.35 if key[0] == "gpt_neox" else 0.17) * key[1])
    assert "published for" not in found["mom2_weight"].reason + found["layer"].reason
    for name in ("steps", "lr", "weight_decay", "clamp"):
        assert (found[name].value, found[name].reason) == (
            PUBLISHED_MULTI_LAYER[key].values[name],
            f"MEMIT's, {PUBLISHED_MULTI_LAYER[key].reason}",
        )


def test_derived_weight_moves_a_typical_key_half_of_the_way() -> None:
    """w e = f, as MEMIT's lambda = f."""
    found = derive(EmmetConfig(), facts_of("llama", 30, 576, 1536))
    assert found["mom2_weight"].value * EmmetConfig().softening == pytest.approx(1536)
    assert (found["layer"].value, found["clamp"].value) == (5, 4.0)
    assert derive(EmmetConfig(), facts_of("gpt2", 12, 768, 3072, rms=False))["clamp"].value == 0.75
    assert derive(EmmetConfig(mom2_weight=3.0), facts_of("llama", 30, 576, 1536))["mom2_weight"].reason == "given"
