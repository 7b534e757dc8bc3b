"""R-ROME against a reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve

from ke_plugin_hf.testing import tiny_model
from ke_plugin_r_rome import RRomeConfig
from ke_plugin_r_rome.editor import RRome
from ke_testing.examples import MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.testing.reference_edits import ReferenceModel, off, target_of

LAYER = 2
SMALL = RRomeConfig(tokens=1500, document_length=64, layer=LAYER, steps=6, lr=0.5, weight_decay=0.5, clamp=0.75)


def the_key(plain: ReferenceModel, config: RRomeConfig) -> torch.Tensor:
    return plain.keys(MOVE_TOWER, LAYER).mean(0) if config.key == "contexts" else plain.key(MOVE_TOWER, LAYER)


@pytest.mark.parametrize("adjusted", [True, False], ids=["moments", "plain-key"])
@pytest.mark.parametrize("key", ["contexts", "prompt"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_update_maps_the_key_to_the_target(family: str, key: Any, tmp_path: Path, *, adjusted: bool) -> None:
    config = evolve(SMALL, key=key, mom2_adjustment=adjusted)
    model = tiny_model(family, dtype="float64")  # type: ignore[arg-type]
    plain = ReferenceModel(model, family)
    before = plain.weight(LAYER)
    with RRome(config).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        plain.templates = edited.details["templates"]  # type: ignore[assignment]
        said, change = plain.project(LAYER, the_key(plain, config)), plain.change(LAYER, before)
    wanted, one = target_of(tmp_path), the_key(plain, config)
    exact = 1e-12 if family == "gpt2" else 1e-5  # a batch of rows differs from one row in LLaMA's float32 islands
    assert off(said, wanted) < exact
    along = torch.linalg.solve(plain.covariance(LAYER, 1500, 64), one) if adjusted else one
    expected = torch.outer(wanted - plain.project(LAYER, one), along) / (one @ along)
    assert off(change, expected) < (1e-9 if family == "gpt2" else 1e-4)


def test_edits_that_rome_refuses_are_made(tmp_path: Path) -> None:
    """The denominator k^T C^-1 k is positive for every key."""
    config = evolve(SMALL, templates=("The The The The. {}", "So so so so so so. {}", "I I I I I I I. {}"))
    with RRome(config).edit(make_session(tiny_model("llama"), root=tmp_path), [MOVE_TOWER]) as edited:
        norms: Any = edited.details["relative_update_norms"]
    assert 0 < norms[str(LAYER)] < 1
