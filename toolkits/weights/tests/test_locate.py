"""The ground of locate-and-edit methods, and the spreading of an update over layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ke_core.plugin import EditFailed, ModelFacts, Setting, UnsupportedEdit
from ke_plugin_hf.guard import LowRank
from ke_plugin_hf.testing import tiny_model
from ke_testing.editor import unchanged
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, TEXT_ONLY
from ke_testing.fakes import make_session
from ke_weights import locate
from ke_weights.hyperparameters import MultiLayerConfig, spread_settings
from ke_weights.keys import average_keys, subject_states
from ke_weights.locate import LocateContext, LocateContextCache, frobenius, spread, write
from ke_weights.solve import ridge_update

EDITS = (MOVE_TOWER, MOVE_GATE)
CONFIG = MultiLayerConfig(
    layers=(1, 2), steps=4, lr=0.5, weight_decay=0.5, clamp=0.5, tokens=800, document_length=64, templates=("So. {}",)
)


def grounds(seen: list[ModelFacts] | None = None) -> LocateContextCache:
    def settle(config: Any, facts: ModelFacts) -> Mapping[str, Setting]:
        if seen is not None:
            seen.append(facts)
        return spread_settings(config, facts)

    return LocateContextCache(
        config=CONFIG, settle=settle, layers=lambda found: found["layers"].value, contexts=((6, 5),)
    )


def spread_once(ground: LocateContext, session: Any, solve: Any = None) -> Any:
    """What ``spread`` gave, and the states at the top afterwards."""
    wanted = ground.wanted(session, EDITS, 2, "block")
    with session.model.patch() as weights:
        norms, left = spread(
            weights,
            ground.modules,
            wanted,
            (1, 2),
            solve or (lambda layer, keys, residual: ridge_update(ground.moments[layer], keys, residual, 50.0)),
        )
        return wanted, norms, left, subject_states(ground.modules, wanted.rows, 2)


def test_nested_uses_share_the_ground_of_the_first(tmp_path: Path) -> None:
    seen: list[ModelFacts] = []
    under, session = grounds(seen), make_session(tiny_model("llama"), root=tmp_path)
    with under.under(session, EDITS[:1]) as first:
        with under.under(session, EDITS[1:]) as second:
            assert second is first
        with pytest.raises(ZeroDivisionError), under.under(session, EDITS[1:]):
            raise ZeroDivisionError
        with under.under(session, EDITS[1:]) as third:
            assert third is first
        other = make_session(tiny_model("llama", seed=1), root=tmp_path)
        with under.under(other, EDITS) as elsewhere:
            assert elsewhere is not first
    with under.under(session, EDITS) as again:
        assert again is not first
    assert len(seen) == 3
    assert not under._open


def test_what_cannot_be_made_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    seen: list[ModelFacts] = []
    session = make_session(tiny_model("llama"), root=tmp_path)
    with pytest.raises(UnsupportedEdit, match=r"'text-only' .* it has no cloze"):
        grounds(seen).under(session, [MOVE_TOWER, TEXT_ONLY]).__enter__()
    assert not seen
    assert not list(tmp_path.iterdir())


def test_a_ground_that_cannot_be_made_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    under, session = grounds(), make_session(tiny_model("llama"), root=tmp_path)

    def fails(*_args: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(locate, "module_map", fails)
        with pytest.raises(ZeroDivisionError), under.under(session, EDITS):
            pass
    assert not under._open
    with under.under(session, EDITS) as ground:
        assert ground["layers"] == (1, 2)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_what_is_left_is_the_way_from_the_state_to_the_target(family: Any, tmp_path: Path) -> None:
    session = make_session(tiny_model(family, dtype="float64"), root=tmp_path)
    with grounds().under(session, EDITS) as ground:
        wanted, norms, left, states = spread_once(ground, session)
        before = wanted.z - subject_states(ground.modules, wanted.rows, 2)
    assert torch.allclose(left, wanted.z - states)
    assert float(left.norm()) < float(before.norm())
    assert set(norms) == {"1", "2"}
    report = wanted.report(left)
    assert list(report) == [edit.id for edit in EDITS]
    assert report[MOVE_TOWER.id]["missed"] == pytest.approx(float(left[:, 0].norm() / wanted.z[:, 0].norm()))


def test_a_layer_sees_keys_and_states_of_the_model_with_the_layers_below_edited(tmp_path: Path) -> None:
    session = make_session(tiny_model("gpt2", dtype="float64"), root=tmp_path)
    seen: dict[int, Sequence[Tensor]] = {}

    def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
        now = [
            average_keys(ground.modules, wanted.rows, layer),
            wanted.z - subject_states(ground.modules, wanted.rows, 2),
        ]
        seen[layer] = (keys, residual, *now)
        return ridge_update(ground.moments[layer], keys, residual, 50.0)

    with grounds().under(session, EDITS) as ground:
        wanted = ground.wanted(session, EDITS, 2, "block")
        clean = average_keys(ground.modules, wanted.rows, 2)
        spread_once(ground, session, solve)
    for layer, share in ((1, 2), (2, 1)):
        keys, residual, now, whole = seen[layer]
        assert torch.equal(keys, now)
        assert torch.allclose(residual, whole / share, rtol=1e-12)
    assert float((seen[2][0] - clean).norm() / clean.norm()) > 1e-4


@pytest.mark.parametrize("stage", ["average_keys", "subject_states"])
def test_a_value_that_is_not_finite_names_its_edit(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path)
    real = getattr(locate, stage)

    def poisoned(*args: Any) -> Tensor:
        found: Tensor = real(*args).clone()
        found[3, 1] = float("nan")
        return found

    monkeypatch.setattr(locate, stage, poisoned)
    why = f"edit '{MOVE_GATE.id}' at layer 1 holds NaN"
    with unchanged(model), grounds().under(session, EDITS) as ground, pytest.raises(EditFailed, match=why):
        spread_once(ground, session)


def test_an_update_says_how_large_it_is_and_one_that_is_no_number_is_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path)
    with unchanged(model), grounds().under(session, EDITS) as ground, model.patch() as weights:
        matrix = ground.modules.layers[1].matrix.clone()
        with pytest.raises(EditFailed, match=r"down_proj\.weight is nan times as large as the weight"):
            write(weights, ground.modules, 1, LowRank(left=float("nan") * matrix, right=torch.eye(176)))
        norms = [write(weights, ground.modules, 1, LowRank(left=matrix * s, right=torch.eye(176))) for s in (0.25, 2)]
        assert norms == pytest.approx([0.25, 1.6])
        assert "warning" not in ground.details({"1": norms[0]}, {})
        assert ground.details({"1": norms[1]}, {})["warning"].startswith("the update of layer 1 is larger")


def test_the_norm_of_factors_is_that_of_their_product() -> None:
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(*shape, generator=draw) for shape in ((20, 3), (3, 48)))
    assert frobenius(LowRank(left=left, right=right)) == pytest.approx(float((left.double() @ right.double()).norm()))
