"""Editing of tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ke_core.plugin import BadConfig
from ke_plugin_hf.testing import tiny_model
from ke_plugin_malmen import MalmenConfig, RLEditConfig
from ke_plugin_malmen.editor import Malmen, RLEdit
from ke_testing.editor import unchanged
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.hypernetwork import gradient_factors
from ke_weights.plugin import encode, frozen_module, map_orientation, rewrite, scored_tokens, target_ids
from ke_weights.testing.apart import without_float64
from ke_weights.testing.weights import changes, weights_of


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_update_solves_the_published_equation(family: Any, count: int, kit: Any, tmp_path: Path) -> None:
    """S = (U^T U + e^lambda I)^-1 U^T D, with D of the trained network."""
    model = kit.trained("malmen", tmp_path, family)
    session = make_session(model, root=tmp_path)
    network = Malmen(MalmenConfig()).trained(session).network
    made = [rewrite(edit) for edit in FOUR_MOVES[:count]]
    rows = [
        (encode(model.tokenizer, one.prompt)[0], target_ids(model.tokenizer, one.prompt, one.target)) for one in made
    ]
    with frozen_module(model.module), torch.enable_grad():
        found, _losses, _logits = gradient_factors(
            model.module, tuple(network.shapes), scored_tokens(rows, model.device), answers=True
        )
    before = weights_of(model)
    with Malmen(MalmenConfig()).edit(session, FOUR_MOVES[:count]):
        deltas = changes(model, before)
    assert list(deltas) == [f"{name}.weight" for name in network.shapes]
    for name, one in found.items():
        assert len(one.x) == sum(len(target) for _prompt, target in rows)
        u, ridge = one.x.double(), float(network.ridge(name).exp())
        wanted = torch.linalg.inv(u.T @ u + ridge * torch.eye(u.shape[1])) @ u.T @ network.changes(name, one).double()
        delta = map_orientation(model.module.get_submodule(name), deltas[f"{name}.weight"]).T
        assert float((delta - wanted).norm() / wanted.norm()) < 1e-5


@pytest.mark.parametrize("where", ["edit_factors", "add_updates", "edit_details", "inside"])
def test_exception_at_any_stage_restores_the_model(
    where: str, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = kit.trained("malmen", tmp_path)
    editor = Malmen(MalmenConfig())

    def fails(*_args: Any, **_options: Any) -> Any:
        raise ZeroDivisionError

    if where != "inside":
        monkeypatch.setattr(f"ke_plugin_malmen.editor.{where}", fails)
    session = make_session(model, root=tmp_path)
    with unchanged(model), pytest.raises(ZeroDivisionError), editor.edit(session, [MOVE_TOWER]):
        raise ZeroDivisionError
    assert not editor._open


def test_nested_edit_is_computed_on_the_edited_model(kit: Any, tmp_path: Path) -> None:
    model = kit.trained("rledit", tmp_path)
    session, editor, before = make_session(model, root=tmp_path), RLEdit(RLEditConfig()), weights_of(model)
    with editor.edit(session, [MOVE_GATE]) as edited:
        alone = edited.details["edits"]
    with unchanged(model), editor.edit(session, [MOVE_TOWER]):
        outer = weights_of(model)
        with editor.edit(session, [MOVE_GATE]) as edited:
            assert edited.details["edits"] != alone
            assert changes(model, outer)
        assert not changes(model, outer)
    assert not changes(model, before)


def test_network_of_the_other_editor_is_refused(kit: Any, tmp_path: Path) -> None:
    model = tiny_model("llama")
    folder = kit.leave("malmen", model, tmp_path, kit.tensors("malmen", model))
    session = make_session(model, root=tmp_path)
    with (
        unchanged(model),
        pytest.raises(BadConfig, match="was trained for malmen, not for rledit"),
        RLEdit(RLEditConfig(checkpoint=str(folder))).edit(session, [MOVE_TOWER]),
    ):
        pass
    with pytest.raises(BadConfig, match="rledit needs a trained network: none found for tiny:") as caught:
        RLEdit(RLEditConfig()).check(session, ())
    assert f"ke train rledit --model {model.id} --data FILE --minutes 30" in caught.value.hint


def test_device_without_float64_is_supported(kit: Any, tmp_path: Path) -> None:
    session = make_session(kit.trained("malmen", tmp_path), root=tmp_path)
    with without_float64(), Malmen(MalmenConfig()).edit(session, [MOVE_TOWER]) as edited:
        assert edited.details["edits"]


def test_details_are_json_with_the_network(kit: Any, tmp_path: Path) -> None:
    session = make_session(kit.trained("malmen", tmp_path), root=tmp_path)
    with Malmen(MalmenConfig()).edit(session, [MOVE_TOWER, MOVE_GATE]) as edited:
        details = edited.details
    assert json.loads(json.dumps(details, allow_nan=False)) == details
    assert details["trained"]["place"]["model"]
    assert set(details["edits"]) == {MOVE_TOWER.id, MOVE_GATE.id}
    assert set(details["step_sizes"]) == set(details["ridges"])
    assert len(details["relative_update_norms"]) == 2
