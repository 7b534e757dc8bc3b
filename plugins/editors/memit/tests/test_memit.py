"""MEMIT on tiny models against a reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_plugin_hf.testing import FAMILIES, Family, tiny_model
from ke_plugin_memit import MemitConfig
from ke_plugin_memit.editor import Memit
from ke_testing.editor import unchanged
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.plugin import TargetSettings, module_map
from ke_weights.testing.reference_edits import FLOAT32_PARTS, ReferenceModel, off, target_of

EDITS = (MOVE_TOWER, MOVE_GATE)
LAMBDA = 20.0
SMALL = MemitConfig(
    tokens=1500, document_length=64, template_length=6, layers=(1, 2), steps=6, lr=0.5, weight_decay=0.5, clamp=0.75,
    mom2_weight=LAMBDA,
)  # fmt: skip
TARGET = TargetSettings(layer=2, steps=6, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.75)


def plain_updates(plain: ReferenceModel) -> dict[int, Tensor]:
    """Apply algorithm 1 with explicit loops to ``plain.model``, and return the updates."""
    moments = {layer: plain.covariance(layer, 1500, 64) for layer in (1, 2)}
    z = torch.stack([plain.target(edit, 2, TARGET, mlp=False).z for edit in EDITS], 1)
    found: dict[int, Tensor] = {}
    for place, layer in enumerate((1, 2)):
        keys = torch.stack([plain.grouped_key(edit, layer) for edit in EDITS], 1)
        now = torch.stack([plain.state(edit, 2) for edit in EDITS], 1)
        residual = (z - now) / (2 - place)
        found[layer] = residual @ torch.linalg.solve(LAMBDA * moments[layer] + keys @ keys.T, keys).T
        plain.add(layer, found[layer])
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_updates_equal_the_reference(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    plain = ReferenceModel(model, family)
    before = {layer: plain.weight(layer) for layer in (1, 2)}
    with Memit(SMALL).edit(make_session(model, root=tmp_path), EDITS) as edited:
        plain.templates = edited.details["templates"]  # type: ignore[assignment]
        ours = {layer: plain.change(layer, before[layer]) for layer in (1, 2)}
    other = ReferenceModel(tiny_model(family, dtype="float64"), family, plain.templates)
    for layer, update in plain_updates(other).items():
        assert off(ours[layer], update) < (1e-4 if family in FLOAT32_PARTS else 1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_edit_in_one_layer_equals_the_closed_form(family: Family, tmp_path: Path) -> None:
    """Delta = r k^T (lambda C + k k^T)^-1, a stationary point of the ridge objective."""
    model = tiny_model(family, dtype="float64")
    plain = ReferenceModel(model, family)
    before = plain.weight(2)
    with Memit(evolve(SMALL, layers=(2,))).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        plain.templates = edited.details["templates"]  # type: ignore[assignment]
        ours = plain.change(2, before).numpy()
    key, covariance = plain.grouped_key(MOVE_TOWER, 2).numpy(), plain.covariance(2, 1500, 64).numpy()
    residual = (target_of(tmp_path) - plain.state(MOVE_TOWER, 2)).numpy()
    form = np.outer(residual, np.linalg.solve(LAMBDA * covariance + np.outer(key, key), key))
    most = 1e-5 if family in FLOAT32_PARTS else 1e-10
    assert np.linalg.norm(ours - form) / np.linalg.norm(form) < most
    gradient = np.outer(ours @ key - residual, key) + LAMBDA * ours @ covariance
    assert np.linalg.norm(gradient) / np.linalg.norm(np.outer(residual, key)) < most


@pytest.mark.parametrize("family", FAMILIES)
def test_smaller_lambda_moves_states_nearer_to_their_targets(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family)
    missed = []
    for weight in (1e6, 1e4, 200.0):  # much smaller weights overshoot, because keys are averaged
        with Memit(evolve(SMALL, mom2_weight=weight)).edit(make_session(model, root=tmp_path), EDITS) as edited:
            edits: Any = edited.details["edits"]
            missed.append(sum(edit["missed"] for edit in edits.values()))
    assert missed == sorted(missed, reverse=True)
    assert missed[-1] < missed[0] * 0.8


@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_selected_projections_change(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family)
    with model.recording() as changes, Memit(SMALL).edit(make_session(model, root=tmp_path), EDITS) as edited:
        names = [module_map(model.module).layers[layer].weight_name for layer in (1, 2)]
        assert list(changes.deltas()) == names
    assert set(edited.details["relative_update_norms"]) == {"1", "2"}  # type: ignore[arg-type]


def test_update_larger_than_the_weight_is_made_with_a_warning(tmp_path: Path) -> None:
    model = tiny_model("llama")
    config = evolve(SMALL, mom2_weight=1e-9, clamp=1e4, lr=300.0, weight_decay=0.0)
    with unchanged(model), Memit(config).edit(make_session(model, root=tmp_path), EDITS) as edited:
        found = edited.details
    assert max(found["relative_update_norms"].values()) > 1  # type: ignore[union-attr]
    assert "exceeds the weight" in str(found["warning"])
