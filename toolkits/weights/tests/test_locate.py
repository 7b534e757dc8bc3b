"""The context of locate-and-edit methods, and the spreading of an update over layers."""

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
from ke_weights import locate, spread
from ke_weights.hyperparameters import MultiLayerConfig, multi_layer_settings
from ke_weights.keys import average_keys, subject_states
from ke_weights.locate import LocateContext, LocateContextCache
from ke_weights.locate_editor import with_size_warning
from ke_weights.solve import ridge_update
from ke_weights.spread import frobenius, spread_over_layers, write

EDITS = (MOVE_TOWER, MOVE_GATE)
CONFIG = MultiLayerConfig(
    layers=(1, 2), steps=4, lr=0.5, weight_decay=0.5, clamp=0.5, tokens=800, document_length=64, templates=("So. {}",)
)


def context_cache(seen: list[ModelFacts] | None = None) -> LocateContextCache:
    def resolve(config: Any, facts: ModelFacts) -> Mapping[str, Setting]:
        if seen is not None:
            seen.append(facts)
        return multi_layer_settings(config, facts)

    return LocateContextCache(
        config=CONFIG, resolve=resolve, layers=lambda found: found["layers"].value, contexts=((6, 5),)
    )


def spread_once(context: LocateContext, session: Any, solve: Any = None) -> Any:
    """Return the result of ``spread_over_layers``, and the states at the last layer afterwards."""
    targets = context.edit_targets(session, EDITS, context.target_settings(2, "block"))
    with session.model.patch() as weights:
        norms, left = spread_over_layers(
            weights,
            context.modules,
            targets,
            (1, 2),
            solve or (lambda layer, keys, residual: ridge_update(context.covariances[layer], keys, residual, 50.0)),
        )
        return targets, norms, left, subject_states(context.modules, targets.rows, 2)


def test_nested_uses_share_the_first_context(tmp_path: Path) -> None:
    seen: list[ModelFacts] = []
    cache, session = context_cache(seen), make_session(tiny_model("llama"), root=tmp_path)
    with cache.open(session, EDITS[:1]) as first:
        with cache.open(session, EDITS[1:]) as second:
            assert second is first
        with pytest.raises(ZeroDivisionError), cache.open(session, EDITS[1:]):
            raise ZeroDivisionError
        with cache.open(session, EDITS[1:]) as third:
            assert third is first
        other = make_session(tiny_model("llama", seed=1), root=tmp_path)
        with cache.open(other, EDITS) as elsewhere:
            assert elsewhere is not first
    with cache.open(session, EDITS) as again:
        assert again is not first
    assert len(seen) == 3
    assert not cache._open


def test_unsupported_edits_are_refused_before_any_computation(tmp_path: Path) -> None:
    seen: list[ModelFacts] = []
    session = make_session(tiny_model("llama"), root=tmp_path)
    with pytest.raises(UnsupportedEdit, match=r"'text-only' .* it has no cloze"):
        context_cache(seen).open(session, [MOVE_TOWER, TEXT_ONLY]).__enter__()
    assert not seen
    assert not list(tmp_path.iterdir())


def test_failed_context_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, session = context_cache(), make_session(tiny_model("llama"), root=tmp_path)

    def fails(*_args: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(locate, "module_map", fails)
        with pytest.raises(ZeroDivisionError), cache.open(session, EDITS):
            pass
    assert not cache._open
    with cache.open(session, EDITS) as context:
        assert context["layers"] == (1, 2)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_remaining_residual_is_target_minus_state(family: Any, tmp_path: Path) -> None:
    session = make_session(tiny_model(family, dtype="float64"), root=tmp_path)
    with context_cache().open(session, EDITS) as context:
        targets, norms, left, states = spread_once(context, session)
        before = targets.z - subject_states(context.modules, targets.rows, 2)
    assert torch.allclose(left, targets.z - states)
    assert float(left.norm()) < float(before.norm())
    assert set(norms) == {"1", "2"}
    report = targets.report(left)
    assert list(report) == [edit.id for edit in EDITS]
    assert report[MOVE_TOWER.id]["missed"] == pytest.approx(float(left[:, 0].norm() / targets.z[:, 0].norm()))


def test_layer_uses_keys_and_states_after_edits_of_lower_layers(tmp_path: Path) -> None:
    session = make_session(tiny_model("gpt2", dtype="float64"), root=tmp_path)
    seen: dict[int, Sequence[Tensor]] = {}

    def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
        now = [
            average_keys(context.modules, targets.rows, layer),
            targets.z - subject_states(context.modules, targets.rows, 2),
        ]
        seen[layer] = (keys, residual, *now)
        return ridge_update(context.covariances[layer], keys, residual, 50.0)

    with context_cache().open(session, EDITS) as context:
        targets = context.edit_targets(session, EDITS, context.target_settings(2, "block"))
        clean = average_keys(context.modules, targets.rows, 2)
        spread_once(context, session, solve)
    for layer, share in ((1, 2), (2, 1)):
        keys, residual, now, whole = seen[layer]
        assert torch.equal(keys, now)
        assert torch.allclose(residual, whole / share, rtol=1e-12)
    assert float((seen[2][0] - clean).norm() / clean.norm()) > 1e-4


@pytest.mark.parametrize("stage", ["average_keys", "subject_states"])
def test_infinite_key_or_residual_error_names_the_edit(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path)
    real = getattr(spread, stage)

    def poisoned(*args: Any) -> Tensor:
        found: Tensor = real(*args).clone()
        found[3, 1] = float("nan")
        return found

    monkeypatch.setattr(spread, stage, poisoned)
    why = f"edit '{MOVE_GATE.id}' at layer 1 contains NaN"
    with unchanged(model), context_cache().open(session, EDITS) as context, pytest.raises(EditFailed, match=why):
        spread_once(context, session)


def test_relative_norm_is_returned_and_nan_is_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path)
    with unchanged(model), context_cache().open(session, EDITS) as context, model.patch() as weights:
        matrix = context.modules.layers[1].matrix.clone()
        with pytest.raises(EditFailed, match=r"down_proj\.weight is nan times as large as the weight"):
            write(weights, context.modules, 1, LowRank(left=float("nan") * matrix, right=torch.eye(176)))
        norms = [write(weights, context.modules, 1, LowRank(left=matrix * s, right=torch.eye(176))) for s in (0.25, 2)]
        assert norms == pytest.approx([0.25, 1.6])
        assert "warning" not in with_size_warning(context.details({"1": norms[0]}, {}))
        details = with_size_warning(context.details({"1": norms[1]}, {}))
        assert details["warning"].startswith("the update of layer 1 exceeds the weight")


def test_norm_of_factors_equals_norm_of_product() -> None:
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randn(*shape, generator=draw) for shape in ((20, 3), (3, 48)))
    assert frobenius(LowRank(left=left, right=right)) == pytest.approx(float((left.double() @ right.double()).norm()))
