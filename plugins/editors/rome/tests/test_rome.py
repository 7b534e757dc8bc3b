"""ROME against a reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import EditFailed, UnsupportedEdit
from ke_plugin_hf.testing import FAMILIES, Family, tiny_model
from ke_plugin_rome import RomeConfig
from ke_plugin_rome import editor as editor_module
from ke_plugin_rome.editor import Rome
from ke_testing.editor import unchanged
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.plugin import TargetSettings, bare_keys, module_map
from ke_weights.testing.reference_edits import FLOAT32_PARTS, ReferenceModel, off, target_of

LAYER = 2
SMALL = RomeConfig(tokens=1500, document_length=64, layer=LAYER, steps=6, lr=0.5, weight_decay=0.5, clamp=0.75)
TARGET = TargetSettings(layer=LAYER, site="mlp", steps=6, lr=0.5, kl=0.0625, weight_decay=0.5, clamp=0.75)


def update(model: Any, root: Path, config: RomeConfig = SMALL, family: str = "gpt2") -> tuple[Tensor, Any]:
    """W' - W of the edited layer, [d, f], and the details."""
    plain = ReferenceModel(model, family)
    before = plain.weight(LAYER)
    with Rome(config).edit(make_session(model, root=root), [MOVE_TOWER]) as edited:
        return plain.change(LAYER, before), edited.details


@pytest.mark.parametrize(("dtype", "most"), [("float64", 1e-12), ("float32", 1e-4)])
@pytest.mark.parametrize("family", FAMILIES)
def test_edited_projection_maps_the_key_to_its_target(family: Family, dtype: str, most: float, tmp_path: Path) -> None:
    """W' k_c + b = v*."""
    model = tiny_model(family, dtype=dtype)
    with Rome(SMALL).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        missed: Any = edited.details["edits"]
    assert missed[MOVE_TOWER.id]["missed"] < most


@pytest.mark.parametrize("family", FAMILIES)
def test_update_equals_the_reference(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    ours, details = update(model, tmp_path, family=family)
    plain = ReferenceModel(model, family, details["templates"])
    along = torch.linalg.solve(plain.covariance(LAYER, 1500, 64), plain.keys(MOVE_TOWER, LAYER).mean(0))
    wanted = plain.target(MOVE_TOWER, LAYER, TARGET, mlp=True).z
    key, value = plain.key(MOVE_TOWER, LAYER), plain.value(MOVE_TOWER, LAYER)
    assert off(wanted, target_of(tmp_path)) < (1e-6 if family in FLOAT32_PARTS else 1e-12)
    assert off(ours, torch.outer(wanted - value, along) / (key @ along)) < (1e-4 if family in FLOAT32_PARTS else 1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_output_of_the_edited_layer_is_the_target(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    with Rome(SMALL).edit(make_session(model, root=tmp_path), [MOVE_TOWER]):
        said = ReferenceModel(model, family).value(MOVE_TOWER, LAYER)
    assert off(said, target_of(tmp_path)) < (1e-6 if family in FLOAT32_PARTS else 1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_update_has_rank_one_and_keeps_orthogonal_keys(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    ours, details = update(model, tmp_path, family=family)
    sizes = torch.linalg.svdvals(ours)
    assert float(sizes[1] / sizes[0]) < 1e-12
    plain = ReferenceModel(model, family, details["templates"])
    covariance, mean = plain.covariance(LAYER, 1500, 64), plain.keys(MOVE_TOWER, LAYER).mean(0)
    along = torch.linalg.solve(covariance, mean)
    other = torch.randn(176, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    spared = other - torch.outer(along, along @ other) / (along @ along)
    assert float((mean @ torch.linalg.solve(covariance, spared)).abs().max()) < 1e-9
    assert float((ours @ spared).norm() / (ours @ other).norm()) < (1e-6 if family in FLOAT32_PARTS else 1e-9)


def test_scale_of_the_direction_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt2", dtype="float64")
    ours, details = update(model, tmp_path)
    real = editor_module.covariance_weighted
    monkeypatch.setattr(editor_module, "covariance_weighted", lambda *args: 3 * real(*args))
    scaled, again = update(model, tmp_path)
    assert off(scaled, ours) < 1e-12
    assert again["cosine"] == pytest.approx(details["cosine"], rel=1e-12)


def test_key_is_the_direction_without_mom2_adjustment(tmp_path: Path) -> None:
    model = tiny_model("gpt2", dtype="float64")
    ours, details = update(model, tmp_path, evolve(SMALL, mom2_adjustment=False))
    mean = ReferenceModel(model, "gpt2", details["templates"]).keys(MOVE_TOWER, LAYER).mean(0)
    assert off(torch.outer(ours @ mean, mean) / (mean @ mean), ours) < 1e-12
    assert details["corpus"] == {}
    assert not (tmp_path / "moments").exists()


def test_key_is_the_mean_over_21_templates(tmp_path: Path) -> None:
    model = tiny_model("gpt2", dtype="float64")
    _ours, details = update(model, tmp_path)
    templates = details["templates"]
    assert templates[0] == "{}"
    assert len(templates) == 21
    lengths = [len(model.encode(one.removesuffix(". {}"))) for one in templates[1:]]
    assert sum(lengths[10:]) > 1.5 * sum(lengths[:10])  # random tokens are not read back as they were written
    assert len(set(templates)) == 21


def test_disabling_edit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The update grows with the angle between bare and averaged key, up to ``min_cosine``."""
    model = tiny_model("gpt2", dtype="float64")
    session = make_session(model, root=tmp_path)
    draw = torch.randn(176, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    sizes, cosines = [], []
    for share in (0.0, 0.3, 0.6, 0.8):

        def moved(modules: Any, rows: Any, layer: int, share: float = share) -> Tensor:
            key = bare_keys(modules, rows, layer)
            return (1 - share) * key + share * draw * key.norm() / draw.norm()

        monkeypatch.setattr(editor_module, "bare_keys", moved)
        with Rome(evolve(SMALL, min_cosine=0.0, clamp=0.1)).edit(session, [MOVE_TOWER]) as edited:
            details: Any = edited.details
        cosines.append(details["cosine"])
        sizes.append(details["relative_update_norms"][str(LAYER)])
    assert cosines == sorted(cosines, reverse=True)
    assert sizes == sorted(sizes)
    least = (cosines[-1] + cosines[-2]) / 2
    with (
        unchanged(model),
        pytest.raises(EditFailed, match=f"edit '{MOVE_TOWER.id}' would ruin the model") as caught,
        Rome(evolve(SMALL, min_cosine=least, clamp=0.1)).edit(session, [MOVE_TOWER]),
    ):
        pass
    assert "r-rome" in caught.value.hint


def test_more_than_one_edit_is_refused(tmp_path: Path) -> None:
    session = make_session(tiny_model("llama"), root=tmp_path)
    with (
        pytest.raises(UnsupportedEdit, match="one edit at a time, not 2"),
        Rome(SMALL).edit(session, [MOVE_TOWER, MOVE_GATE]),
    ):
        pass


def test_sequential_edits_depend_on_their_order(tmp_path: Path) -> None:
    model = tiny_model("gpt2", dtype="float64")
    plain, editor, session = ReferenceModel(model, "gpt2"), Rome(SMALL), make_session(model, root=tmp_path)
    before, found = plain.weight(LAYER), []
    for one, other in ((MOVE_TOWER, MOVE_GATE), (MOVE_GATE, MOVE_TOWER)):
        with editor.edit(session, [one]), editor.edit(session, [other]):
            found.append(plain.change(LAYER, before))
    assert off(*found) > 1e-3


def test_only_the_selected_layer_changes(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with model.recording() as changes, Rome(SMALL).edit(make_session(model, root=tmp_path), [MOVE_TOWER]):
        assert list(changes.deltas()) == [module_map(model.module).layers[LAYER].weight_name]
