"""Editing of tiny models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ke_core.plugin import BadConfig, BadData, KEError, Score
from ke_plugin_hf.testing import tiny_model
from ke_plugin_mend import MendConfig
from ke_plugin_mend import editor as editor_module
from ke_plugin_mend.editor import Mend
from ke_testing.editor import unchanged
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.hypernetwork import GradientFactors
from ke_weights.plugin import frozen_module, hooked, map_orientation, rewrite, target_ids
from ke_weights.testing.apart import without_float64
from ke_weights.testing.weights import changes, weights_of

EDITS = (MOVE_TOWER, MOVE_GATE)


def deltas(model: Any, root: Path, edits: Any, config: MendConfig | None = None) -> dict[str, Tensor]:
    before = weights_of(model)
    with Mend(config or MendConfig()).edit(make_session(model, root=root), edits):
        return changes(model, before)


@pytest.mark.parametrize("where", ["edit_factors", "add_updates", "edit_details", "inside"])
def test_exception_at_any_stage_restores_the_model(
    where: str, trained: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained()
    editor = Mend(MendConfig())

    def fails(*_args: Any) -> Any:
        raise ZeroDivisionError

    if where != "inside":
        monkeypatch.setattr(editor_module, where, fails)
    with unchanged(model), pytest.raises(ZeroDivisionError), editor.edit(make_session(model, root=tmp_path), EDITS):
        raise ZeroDivisionError
    assert not editor._open


def test_only_the_mlps_of_the_last_three_blocks_change(trained: Callable[..., Any], tmp_path: Path) -> None:
    names = list(deltas(trained(), tmp_path, EDITS))
    assert names == [
        f"model.layers.{layer}.mlp.{part}_proj.weight" for layer in (1, 2, 3) for part in ("gate", "up", "down")
    ]


@pytest.mark.integration
def test_trained_network_makes_the_new_object_more_probable(trained: Callable[..., Any], tmp_path: Path) -> None:
    model = trained(steps=60)
    ask = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome",))]
    before = model.score(ask)[0].logprobs[0]
    with Mend(MendConfig()).edit(make_session(model, root=tmp_path), [MOVE_TOWER]):
        assert model.score(ask)[0].logprobs[0] > before + 0.1


def test_update_of_several_edits_is_the_sum_of_single_updates(
    trained: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained("gpt2", dtype="float64")
    alone = [deltas(model, tmp_path, [edit]) for edit in EDITS]
    together = deltas(model, tmp_path, EDITS)
    monkeypatch.setattr("ke_weights.hypernetwork.factors.CHUNK", 1)
    chunked = deltas(model, tmp_path, EDITS)
    for name, delta in together.items():
        summed = alone[0][name] + alone[1][name]
        assert float((delta - summed).norm() / summed.norm()) < 1e-6
        assert float((chunked[name] - delta).norm() / delta.norm()) < 1e-6


def test_neurons_that_were_constant_in_training_do_not_blow_up_an_edit(
    trained: Callable[..., Any], kit: Any, tmp_path: Path
) -> None:
    """One that was 0 in training is active in the edit."""
    model = trained()
    before = deltas(model, tmp_path, EDITS)
    saved = dict(kit.tensors("mend", model))
    for name, array in kit.tensors("mend", model).items():
        if name.endswith(("norm_x.mean", "norm_x.squares")):
            saved[name] = array.copy()
            saved[name][0] = 0
    kit.leave("mend", model, tmp_path, saved)
    for name, delta in deltas(model, tmp_path, EDITS).items():
        assert float(delta.norm()) < 2 * float(before[name].norm())


def released(model: Any, root: Path, edits: Any) -> dict[str, Tensor]:
    """Return the update of the released code: the gradient of one mean over the target tokens of all edits."""
    made = [rewrite(edit) for edit in edits]
    prompts = [model.encode(one.prompt) for one in made]
    targets = [target_ids(model.tokenizer, one.prompt, one.target) for one in made]
    texts = [torch.tensor([*prompt, *target]) for prompt, target in zip(prompts, targets, strict=True)]
    ids = pad_sequence(texts, batch_first=True)
    mask = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True)
    labels = torch.full_like(ids, -100)
    for at, (prompt, target) in enumerate(zip(prompts, targets, strict=True)):
        labels[at, len(prompt) : len(prompt) + len(target)] = torch.tensor(target)
    network = Mend(MendConfig()).trained(make_session(model, root=root)).network
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def see(name: str, args: Any, output: Tensor) -> None:
        seen[name] = args[0].detach(), output.requires_grad_()

    with frozen_module(model.module), torch.enable_grad(), hooked(model.module, list(network.shapes), see):
        logits = model.module(input_ids=ids, attention_mask=mask).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        gradients = torch.autograd.grad(loss, [output for _x, output in seen.values()])
    found = {}
    for (name, (x, _output)), g in zip(seen.items(), gradients, strict=True):
        kept = (g != 0).any(-1)  # positions after the last target token have no gradient
        new_x, new_g = network.transform(name, GradientFactors(x[kept], g[kept], kept))
        found[f"{name}.weight"] = map_orientation(model.module.get_submodule(name), new_g.T @ new_x)
    return found


@pytest.mark.parametrize("chunk", [1, 3, 16])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_token_mean_equals_the_released_code(
    family: Any, chunk: int, trained: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained(family, dtype="float64")
    lengths = [len(target_ids(model.tokenizer, rewrite(edit).prompt, rewrite(edit).target)) for edit in FOUR_MOVES]
    assert len(set(lengths)) > 1
    monkeypatch.setattr("ke_weights.hypernetwork.factors.CHUNK", chunk)
    ours = deltas(model, tmp_path, FOUR_MOVES, MendConfig(reduction="token-mean"))
    theirs = released(model, tmp_path, FOUR_MOVES)
    assert set(ours) == set(theirs)
    summed = deltas(model, tmp_path, FOUR_MOVES)
    for name, delta in ours.items():
        assert float((delta - theirs[name]).norm() / theirs[name].norm()) < 1e-5
        assert float((delta - summed[name]).norm() / summed[name].norm()) > 1e-3


def test_both_reductions_agree_for_one_edit(trained: Callable[..., Any], tmp_path: Path) -> None:
    model = trained(dtype="float64")
    alone = [deltas(model, tmp_path, [MOVE_GATE], MendConfig(reduction=name)) for name in ("edit-sum", "token-mean")]
    assert all(torch.equal(alone[1][name], delta) for name, delta in alone[0].items())


def test_recorded_losses_do_not_depend_on_the_reduction(trained: Callable[..., Any], tmp_path: Path) -> None:
    session, found = make_session(trained(), root=tmp_path), []
    for name in ("edit-sum", "token-mean"):
        with Mend(MendConfig(reduction=name)).edit(session, EDITS) as edited:
            found.append(edited.details["edits"])
    assert found[0] == found[1]


def test_device_without_float64_is_supported(trained: Callable[..., Any], tmp_path: Path) -> None:
    session = make_session(trained(), root=tmp_path)
    with without_float64(), Mend(MendConfig()).edit(session, EDITS) as edited:
        assert edited.details["edits"]


def test_lr_scale_scales_the_update(trained: Callable[..., Any], tmp_path: Path) -> None:
    model = trained("gpt2", dtype="float64")
    once, twice = (deltas(model, tmp_path, EDITS, MendConfig(lr_scale=scale)) for scale in (1.0, 2.0))
    assert all(torch.allclose(twice[name], 2 * once[name], rtol=1e-6, atol=1e-12) for name in once)


def test_missing_network_error_has_the_training_command(tmp_path: Path) -> None:
    model = tiny_model("llama", seed=5)
    with (
        unchanged(model),
        pytest.raises(BadConfig, match="mend needs a trained network: none found for tiny:") as caught,
        Mend(MendConfig()).edit(make_session(model, root=tmp_path), EDITS),
    ):
        pass
    assert f"ke train mend --model {model.id} --data FILE --minutes 30" in caught.value.hint
    with pytest.raises(BadConfig, match="mend needs a trained network"):
        Mend(MendConfig()).check(make_session(model, root=tmp_path), ())
    with (
        pytest.raises(BadConfig, match=r"none found in .*nowhere"),
        Mend(MendConfig(checkpoint=str(tmp_path / "nowhere"))).edit(make_session(model, root=tmp_path), EDITS),
    ):
        pass


def test_network_for_other_weights_is_refused(kit: Any, trained: Callable[..., Any], tmp_path: Path) -> None:
    model = trained()
    folder = kit.leave("mend", model, tmp_path, kit.tensors("mend", model), tmp_path / "net")
    other = tiny_model("llama", seed=9)
    config = MendConfig(checkpoint=str(folder))
    with (
        unchanged(other),
        pytest.raises(BadConfig, match=r"was trained for other weights: tiny:llama-float32-0 .*, not tiny:.*-9"),
        Mend(config).edit(make_session(other, root=tmp_path), EDITS),
    ):
        pass
    with Mend(config).edit(make_session(model, root=tmp_path / "else"), EDITS) as edited:
        assert edited.details["trained"]["step"] == 2


@pytest.mark.parametrize("damage", ["cut", "other-editor", "text"])
def test_unusable_checkpoint_is_an_error(damage: str, kit: Any, trained: Callable[..., Any], tmp_path: Path) -> None:
    model = trained()
    editor = "pokemqa" if damage == "other-editor" else "mend"
    folder = kit.leave("mend", model, tmp_path, kit.tensors("mend", model), tmp_path / "net", editor=editor)
    file = folder / "checkpoint.safetensors"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "text":
        file.write_text("not tensors")
    why = "trained for pokemqa" if damage == "other-editor" else "not a checkpoint of ke train"
    with (
        unchanged(model),
        pytest.raises(KEError, match=why) as caught,
        Mend(MendConfig(checkpoint=str(folder))).edit(make_session(model, root=tmp_path), EDITS),
    ):
        pass
    assert isinstance(caught.value, BadConfig | BadData)
    assert "\n" not in caught.value.message


def test_edited_model_passes_the_check(trained: Callable[..., Any], tmp_path: Path) -> None:
    editor, session = Mend(MendConfig()), make_session(trained(), root=tmp_path)
    with editor.edit(session, [MOVE_TOWER]):
        assert editor.check(session, ()) == {}


def test_details_are_json_with_the_network(trained: Callable[..., Any], tmp_path: Path) -> None:
    with Mend(MendConfig()).edit(make_session(trained(), root=tmp_path), EDITS) as edited:
        details = edited.details
    assert json.loads(json.dumps(details, allow_nan=False)) == details
    assert details["trained"]["place"]["model"]
    assert set(details["edits"]) == {edit.id for edit in EDITS}
    assert len(details["step_sizes"]) == len(details["relative_update_norms"]) == 9
