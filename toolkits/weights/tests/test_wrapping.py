"""Update wrappers: the order of their calls, the trace, and the restored model after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ke_core.plugin import BadConfig, Details
from ke_plugin_hf.guard import Delta, Dense, LowRank
from ke_plugin_hf.testing import INNER, tiny_model
from ke_testing.editor import unchanged
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights import EditInputs
from ke_weights.covariance import KeyCovariance
from ke_weights.hyperparameters import MultiLayerConfig, multi_layer_settings
from ke_weights.locate import LocateContextCache
from ke_weights.locate_editor import EditInProgress, LocateEditor
from ke_weights.plugin import UpdateWrapper, dense
from ke_weights.solve import ridge_update
from ke_weights.spread import spread_over_layers
from ke_weights.testing.weights import changes, weights_of
from ke_weights.wrapping import wrapped

EDITS = (MOVE_TOWER, MOVE_GATE)
CONFIG = MultiLayerConfig(
    layers=(1, 2), steps=3, lr=0.5, weight_decay=0.5, clamp=0.5, tokens=1500, document_length=64, templates=("So. {}",)
)


class Spread(LocateEditor):
    """MEMIT with lambda = 50."""

    normal_matrix = True

    def __init__(self) -> None:
        super().__init__(LocateContextCache.multi_layer(CONFIG, multi_layer_settings))

    def write(self, work: EditInProgress) -> dict[str, Any]:
        context = work.context
        targets = work.edit_targets(2, "block")
        norms, left = spread_over_layers(
            work.weights, context.modules, targets, (1, 2),
            lambda layer, keys, residual: ridge_update(
                work.covariance(layer, 50.0), keys, residual, 50.0, work.earlier_keys(layer)
            ),
        )  # fmt: skip
        return context.details(norms, targets.report(left))


class Doubled(UpdateWrapper):
    """Doubles every update; keeps its low rank."""

    def filter(self, work: EditInProgress, layer: int, update: Delta) -> Delta:
        assert isinstance(update, LowRank)
        return LowRank(left=2 * update.left, right=update.right)


class Constant(UpdateWrapper):
    """Adds 0.001 to every entry of an update, after the loop over layers."""

    inside = False

    def filter(self, work: EditInProgress, layer: int, update: Delta) -> Delta:
        return Dense(delta=dense(update) + 0.001)


class Failing(UpdateWrapper):
    """Fails after the updates are written."""

    def after(self, work: EditInProgress) -> Details:
        raise ZeroDivisionError


def built(wrappers: Mapping[str, UpdateWrapper]) -> LocateEditor:
    return wrapped(Spread(), "spread", wrappers, multi_layer_settings)


@pytest.mark.parametrize("wrappers", [("doubled",), ("constant",), ("doubled", "constant"), ("constant", "doubled")])
def test_the_trace_has_the_updates_that_were_written(wrappers: tuple[str, ...], tmp_path: Path) -> None:
    """``inside`` decides before the order of the name."""
    known = {"doubled": Doubled(), "constant": Constant()}
    editor, model = built({name: known[name] for name in wrappers}), tiny_model("gpt2", dtype="float64")
    keys = torch.randn(INNER, 3 * INNER, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    covariance = KeyCovariance(keys @ keys.T / (3 * INNER), 3 * INNER)
    editor.use(EditInputs(covariance=dict.fromkeys((1, 2), covariance.matrix)), EDITS)
    trace, before = editor.traced(), weights_of(model)
    with editor.edit(make_session(model, root=tmp_path), EDITS):
        made = changes(model, before)
    (batch,) = trace.batches
    assert list(batch.layers) == [1, 2]
    for layer, found in batch.layers.items():
        change = made[f"transformer.h.{layer}.mlp.c_proj.weight"].T.numpy()
        assert np.allclose(found.update, change, rtol=0, atol=1e-14)
        plain = dense(ridge_update(covariance, torch.tensor(found.keys), torch.tensor(found.residuals), 50.0)).numpy()
        expected = plain * (2 if "doubled" in wrappers else 1) + (0.001 if "constant" in wrappers else 0)
        assert np.allclose(found.update, expected, rtol=0, atol=1e-12)


def test_a_failing_wrapper_leaves_the_model_and_the_trace_unchanged(tmp_path: Path) -> None:
    model = tiny_model("llama")
    editor, session = built({"doubled": Doubled(), "failing": Failing()}), make_session(model, root=tmp_path)
    trace = editor.traced()
    with unchanged(model), pytest.raises(ZeroDivisionError), editor.edit(session, EDITS):
        pass
    assert not trace.batches


class Reading(Spread):
    """Keeps the weight of layer 2 that ``after`` finds."""

    def after(self, work: EditInProgress) -> None:
        self.found = work.matrix(2).clone()


class Correcting(UpdateWrapper):
    """Adds 1 to every entry of the weight of layer 2, after a batch."""

    def after(self, work: EditInProgress) -> Details:
        weight = work.context.modules.layers[2]
        work.weights.add(weight.weight_name, Dense(delta=torch.ones_like(weight.matrix)))
        return {}


def test_the_editor_reads_the_filtered_weights_before_a_correction(tmp_path: Path) -> None:
    model, editor = tiny_model("llama", dtype="float64"), Reading()
    wrappers: Mapping[str, UpdateWrapper] = {"correcting": Correcting(), "constant": Constant()}
    trace = wrapped(editor, "reading", wrappers, multi_layer_settings).traced()
    weight = model.module.model.layers[2].mlp.down_proj.weight
    before = weight.detach().clone()
    with editor.edit(make_session(model, root=tmp_path), EDITS):
        (batch,) = trace.batches
        filtered = before + torch.tensor(batch.layers[2].update)
        torch.testing.assert_close(editor.found, filtered)
        torch.testing.assert_close(weight.detach(), filtered + 1)


def test_details_describe_the_written_weights(tmp_path: Path) -> None:
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path)
    found: list[Any] = []
    for editor in (Spread(), built({"doubled": Doubled()})):
        with editor.edit(session, EDITS) as edited:
            found.append(edited.details)
    plain, double = found
    assert double["wrappers"] == {"doubled": {}}
    assert double["relative_update_norms"]["1"] == pytest.approx(2 * plain["relative_update_norms"]["1"], rel=1e-4)
    assert {name: edit["steps"] for name, edit in double["edits"].items()} == {edit.id: 2 for edit in EDITS}
    assert double["edits"][MOVE_TOWER.id]["missed"] != plain["edits"][MOVE_TOWER.id]["missed"]


class Warned(Spread):
    """Reports a warning of its own."""

    def write(self, work: EditInProgress) -> dict[str, Any]:
        return super().write(work) | {"warning": "an edit is missing"}


class Scaled(UpdateWrapper):
    """Makes every update 1,000 times as large."""

    def filter(self, work: EditInProgress, layer: int, update: Delta) -> Delta:
        return Dense(delta=1000 * dense(update))


def test_the_warning_of_the_editor_is_kept(tmp_path: Path) -> None:
    """It follows that about the size of the written updates."""
    session, found = make_session(tiny_model("llama"), root=tmp_path), list[Any]()
    for wrapper in (Doubled(), Scaled()):
        with wrapped(Warned(), "warned", {"one": wrapper}, multi_layer_settings).edit(session, EDITS[:1]) as edited:
            found.append(edited.details)
    small, large = found
    assert small["warning"] == "an edit is missing"
    assert large["warning"] == (
        "the update of layer 1, 2 exceeds the weight: expect damage to the rest of the model; an edit is missing"
    )


def test_other_editors_take_no_wrappers() -> None:
    with pytest.raises(BadConfig, match="editor other does not support update wrappers"):
        wrapped(object(), "other", {}, multi_layer_settings)  # type: ignore[arg-type]
