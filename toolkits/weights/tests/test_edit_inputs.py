"""Given inputs replace what an editor would compute, and a trace holds what it computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve

from ke_core.plugin import BadConfig, BadData, EditFailed, KEError
from ke_plugin_hf.testing import INNER, tiny_model
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights import EditInputs, EditTrace, MultiLayerConfig, SingleLayerConfig, multi_layer_settings, targets
from ke_weights.hyperparameters import single_layer_settings
from ke_weights.locate import LocateContextCache
from ke_weights.locate_editor import EditInProgress, LocateEditor
from ke_weights.solve import ridge_update
from ke_weights.spread import spread_over_layers
from ke_weights.testing.weights import changes, weights_of

EDITS = (MOVE_TOWER, MOVE_GATE)
HIDDEN, LAYERS, WEIGHT = 64, (1, 2), 50.0
CONFIG = MultiLayerConfig(
    layers=LAYERS, steps=4, lr=0.5, weight_decay=0.5, clamp=0.5, tokens=1500, document_length=64, templates=("So. {}",)
)


class Spread(LocateEditor):
    """MEMIT with a fixed lambda."""

    def __init__(self, config: MultiLayerConfig = CONFIG) -> None:
        super().__init__(LocateContextCache.multi_layer(config, multi_layer_settings))

    def write(self, work: EditInProgress) -> dict[str, Any]:
        context = work.context
        targets = work.edit_targets(LAYERS[-1], "block")
        norms, left = spread_over_layers(
            work.weights, context.modules, targets, LAYERS,
            lambda layer, keys, residual: ridge_update(context.covariances[layer], keys, residual, WEIGHT),
        )  # fmt: skip
        return context.details(norms, targets.report(left))


def covariance(seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    keys = np.random.default_rng(seed).normal(size=(INNER, 3 * INNER))
    return keys @ keys.T / (3 * INNER)


@pytest.fixture
def session(tmp_path: Path) -> Any:
    return make_session(tiny_model("llama"), root=tmp_path / "artifacts")


def edited(session: Any, inputs: EditInputs | None, editor: LocateEditor | None = None) -> Any:
    """Return the details of an edit, its trace and the changes of the weights."""
    editor = editor or Spread()
    editor.use(inputs, EDITS)
    trace, before = editor.traced(), weights_of(session.model)
    editor.check(session, ())
    with editor.edit(session, EDITS) as made:
        return made.details, trace, changes(session.model, before)


def test_given_targets_are_used_and_none_is_optimized(session: Any, tmp_path: Path) -> None:
    z = torch.randn(HIDDEN, 2, generator=torch.Generator().manual_seed(0))
    details, trace, _ = edited(session, EditInputs(targets=z, covariance=dict.fromkeys(LAYERS, covariance())))
    assert np.array_equal(trace.batches[0].targets, z.double().numpy())
    assert len(trace.losses) == 0
    assert set(details["edits"][MOVE_TOWER.id]) == {"given", "missed"}
    assert details["inputs"]["targets"] == [edit.id for edit in EDITS]
    assert not list(tmp_path.rglob("*.safetensors"))


def test_targets_and_covariances_of_a_trace_reproduce_the_edit(session: Any) -> None:
    inputs = EditInputs(covariance=dict.fromkeys(LAYERS, covariance()))
    details, trace, first = edited(session, inputs)
    assert details["corpus"] == {}
    assert set(details["inputs"]["covariance"]) == {"1", "2"}
    again = EditInputs(covariance=inputs.covariance, targets=trace.batches[0].targets)
    _, _, second = edited(session, again)
    assert first.keys() == second.keys()
    assert all(torch.equal(change, second[name]) for name, change in first.items())


def test_file_of_the_released_code_equals_its_array(session: Any, tmp_path: Path) -> None:
    count = 40_000
    path = tmp_path / "layer.npz"
    np.savez(path, **{
        "mom2.constructor": "util.runningstats.SecondMoment()", "mom2.count": count,
        "mom2.mom2": covariance() * count, "sample_size": 1000,
    })  # fmt: skip
    matrix = covariance() * count / count
    by_file, _, first = edited(session, EditInputs(covariance=dict.fromkeys(LAYERS, str(path))))
    by_array, _, second = edited(session, EditInputs(covariance=dict.fromkeys(LAYERS, torch.tensor(matrix))))
    assert all(torch.equal(change, second[name]) for name, change in first.items())
    one, other = (found["inputs"]["covariance"]["1"] for found in (by_file, by_array))
    assert one == {"source": "layer.npz", "tokens": count, "sha256": other["sha256"]}
    assert other["source"] == "array"


def test_given_contexts_may_contain_commas(session: Any) -> None:
    editor = Spread(MultiLayerConfig(layers=LAYERS, steps=2, clamp=0.5, tokens=1500, document_length=64))
    details, _, _ = edited(session, EditInputs(contexts=["Well, now. {}"]), editor)
    assert details["templates"] == ["{}", "Well, now. {}"]
    assert details["inputs"] == {"contexts": ["{}", "Well, now. {}"]}


def test_cached_targets_keep_the_losses_of_their_optimization(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = EditInputs(covariance=dict.fromkeys(LAYERS, covariance()))
    _, first, _ = edited(session, inputs)
    monkeypatch.setattr("ke_weights.targets.optimize_targets", None)
    _, second, _ = edited(session, inputs)
    assert first.losses == second.losses
    assert [row["step"] for row in first.losses] == [0, 1, 2, 3] * 2
    for row in first.losses:
        assert row["total"] == pytest.approx(row["nll"] + row["kl"] + row["decay"], rel=1e-5)
    assert first.losses[0]["kl"] == pytest.approx(0, abs=1e-6)
    assert first.losses[0]["decay"] == 0 < first.losses[1]["decay"]
    assert first.losses[3]["nll"] < first.losses[0]["nll"]


def test_trace_has_the_documented_shapes(session: Any) -> None:
    details, trace, made = edited(session, None)
    (batch,) = trace.batches
    assert "inputs" not in details
    assert batch.edits == tuple(edit.id for edit in EDITS)
    assert batch.targets.shape == (HIDDEN, 2)
    assert batch.losses[MOVE_TOWER.id].shape == (4, 4)
    assert list(batch.layers) == list(LAYERS)
    for layer, found in batch.layers.items():
        assert found.keys.shape == (INNER, 2)
        assert found.residuals.shape == (HIDDEN, 2)
        assert found.left.shape[1] == found.right.shape[0] == 2
        assert {array.dtype.name for array in (found.keys, found.residuals, found.left, found.right)} == {"float64"}
        change = made[f"model.layers.{layer}.mlp.down_proj.weight"].double().numpy()
        assert np.allclose(found.update, change, atol=1e-6)
    assert repr(batch.layers[1]).startswith(f"LayerTrace(keys=[{INNER}, 2], residuals=[{HIDDEN}, 2]")


def test_update_equals_the_closed_form_of_the_traced_keys_and_residuals(session: Any) -> None:
    """R K^T (lambda C + K K^T)^-1, MEMIT equation 14."""
    given = {layer: covariance(layer) for layer in LAYERS}
    _, trace, _ = edited(session, EditInputs(covariance=given))
    for layer, found in trace.batches[0].layers.items():
        keys, residuals = found.keys, found.residuals
        expected = residuals @ keys.T @ np.linalg.inv(WEIGHT * given[layer] + keys @ keys.T)
        assert np.allclose(found.update, expected, rtol=1e-9, atol=1e-14)


def test_failed_edit_leaves_no_batch_in_the_trace(session: Any) -> None:
    editor = Spread()
    trace = editor.traced()
    with editor.edit(session, EDITS[:1]):
        with pytest.raises(ZeroDivisionError):  # noqa: PT012, SIM117  an error in the context
            with editor.edit(session, EDITS[1:]):
                assert len(trace.batches) == 2
                raise ZeroDivisionError
        assert [batch.edits for batch in trace.batches] == [(MOVE_TOWER.id,)]
    assert len(trace.batches) == 1


def test_inputs_of_a_later_batch_are_only_targets(session: Any) -> None:
    editor = Spread()
    given = EditInputs(covariance=dict.fromkeys(LAYERS, covariance()))
    editor.use(given, EDITS[:1])
    with editor.edit(session, EDITS[:1]):
        with pytest.raises(BadConfig, match="of the active edits cannot be changed"):
            editor.use(given, EDITS[1:])
        editor.use(EditInputs(targets=np.ones((HIDDEN, 1))), EDITS[1:])
        with editor.edit(session, EDITS[1:]) as second:
            assert second.details["inputs"]["targets"] == [MOVE_GATE.id]
        editor.use(None, EDITS[1:])
        with editor.edit(session, EDITS[1:]) as third:
            assert "targets" not in third.details["inputs"]


def saved(tmp_path: Path, **arrays: Any) -> str:
    np.savez(tmp_path / "bad.npz", **arrays)
    return str(tmp_path / "bad.npz")


Z = np.ones((HIDDEN, 2))
WRONG: dict[str, tuple[Callable[[Path], EditInputs], type[KEError], str]] = {
    "missing layer": (lambda _: EditInputs(covariance={2: covariance()}), BadConfig, "no layer 1: .* are 1, 2"),
    "shape": (
        lambda _: EditInputs(covariance=dict.fromkeys(LAYERS, np.eye(3))),
        BadConfig,
        r"1 has the shape \[3, 3\]",
    ),
    "NaN": (
        lambda _: EditInputs(covariance=dict.fromkeys(LAYERS, covariance() * np.nan)),
        BadConfig,
        "covariance of layer 1 contains NaN",
    ),
    "factor": (
        lambda _: EditInputs(covariance=dict.fromkeys(LAYERS, np.linalg.cholesky(covariance()))),
        BadConfig,
        "not symmetric",
    ),
    "singular": (
        lambda _: EditInputs(covariance=dict.fromkeys(LAYERS, np.ones((INNER, INNER)))),
        EditFailed,
        "the key covariance is singular",
    ),
    "few tokens": (
        lambda root: EditInputs(
            covariance=dict.fromkeys(LAYERS, saved(root, **{"mom2.mom2": covariance(), "mom2.count": 100}))
        ),
        EditFailed,
        "from 100 tokens is singular",
    ),
    "other file": (
        lambda root: EditInputs(covariance=dict.fromkeys(LAYERS, saved(root, other=covariance()))),
        BadData,
        "bad.npz cannot be read .*mom2.mom2",
    ),
    "no file": (lambda _: EditInputs(covariance=dict.fromkeys(LAYERS, "none.npz")), BadData, "none.npz cannot be read"),
    "text": (lambda _: EditInputs(targets=[["a"]]), BadConfig, "targets cannot be used"),
    "count of targets": (lambda _: EditInputs(targets=Z[:, :1]), BadConfig, r"\[64, 1\], and there are 2 edits"),
    "width of targets": (lambda _: EditInputs(targets=Z[:9]), BadConfig, "9 rows, and the hidden size .* is 64"),
    "infinite target": (lambda _: EditInputs(targets=Z * np.inf), BadConfig, "targets contains NaN or infinity"),
    "contexts twice": (lambda _: EditInputs(contexts=["So. {}"]), BadConfig, "given twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_give_a_clear_error(name: str, session: Any, tmp_path: Path) -> None:
    make, error, why = WRONG[name]
    before = session.model.state()
    with pytest.raises(error, match=why):
        edited(session, make(tmp_path))
    assert session.model.state() == before


def test_inputs_of_another_type_and_unused_ones_are_refused(session: Any) -> None:
    with pytest.raises(BadConfig, match="inputs is a dict"):
        Spread().use({"targets": Z}, EDITS)
    editor = Spread()
    editor.contexts = LocateContextCache.single_layer(
        SingleLayerConfig(), single_layer_settings, needs_covariance=False
    )
    with pytest.raises(BadConfig, match="would not be used"):
        editor.use(EditInputs(covariance={1: covariance()}), EDITS)


def test_a_target_without_losses_in_its_file_is_optimized_again(session: Any, tmp_path: Path) -> None:
    """Files of earlier versions have no losses."""
    from ke_weights.state_files import load_state, save_state

    _, first, _ = edited(session, None)
    for path in (tmp_path / "artifacts" / "targets").glob("*.safetensors"):
        tensors, about = load_state(path)
        save_state(path, {"z": tensors["z"]}, about)
    _, second, _ = edited(session, None)
    assert first.losses == second.losses
    assert isinstance(second, EditTrace)


def test_targets_of_upcoming_edits_are_optimized_with_the_first(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = targets.optimize_targets

    def counted(modules: Any, plans: Any, settings: Any) -> Any:
        calls.append(len(plans))
        return real(modules, plans, settings)

    monkeypatch.setattr(targets, "optimize_targets", counted)
    alone = weights_of(session.model)
    editor, ahead = Spread(), evolve(session, upcoming=lambda: [MOVE_GATE])
    with editor.edit(ahead, [MOVE_TOWER]):
        assert sum(calls) == 2
        with editor.edit(ahead, [FOUR_MOVES[2]]):  # the others are not edits of this model
            assert sum(calls) == 3
    with editor.edit(session, [MOVE_GATE]):
        assert sum(calls) == 3
    assert changes(session.model, alone) == {}


def test_an_upcoming_edit_that_fails_is_tried_once_and_does_not_fail_the_current_one(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = targets.optimize_targets, list[int]()

    def fails(modules: Any, plans: Any, settings: Any) -> Any:
        tried.append(len(plans))
        if len(plans) > 1:
            raise EditFailed("the loss is not finite")
        return real(modules, plans, settings)

    monkeypatch.setattr(targets, "optimize_targets", fails)
    ahead = evolve(session, upcoming=lambda: [MOVE_GATE])
    for edit in (MOVE_TOWER, FOUR_MOVES[2]):
        with Spread().edit(ahead, [edit]) as made:
            assert set(made.details["edits"]) == {edit.id}
    assert tried == [2, 1, 1]
