"""Fine-tuning against a plain implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ke_core.plugin import BadConfig, EditFailed, Entity, KEError, Score
from ke_plugin_ft import FtConfig
from ke_plugin_ft.editor import Ft
from ke_plugin_hf.testing import Family, Fp8Weight, tiny_model, tiny_nf4
from ke_testing.editor import one_clear_line, unchanged
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.plugin import find_parts, rewrite, target_ids
from ke_weights.testing.inside import answer_loss, open_shift
from ke_weights.testing.weights import changes, weights_of

EDITS = (MOVE_TOWER, MOVE_GATE)
SMALL = FtConfig(layers=(1,), epochs=4, lr=5e-3, eps=1e-2, constrained=True, batch=64)
pytestmark = pytest.mark.usefixtures("one_thread")


def deltas(model: Any, edits: Any, config: FtConfig, root: Path) -> dict[str, Tensor]:
    before = weights_of(model)
    with Ft(config).edit(make_session(model, root=root), edits):
        return changes(model, before)


def nll(model: Any, edit: Any) -> Tensor:
    """Return the mean over the target's tokens, from a pass of the whole model over one row."""
    made = rewrite(edit)
    prompt = model.encode(made.prompt)
    target = target_ids(model.tokenizer, made.prompt, made.target)
    logits = model.module(input_ids=torch.tensor([[*prompt, *target]])).logits[0].double()
    logs = logits.log_softmax(-1)
    return -torch.stack([logs[len(prompt) - 1 + at, token] for at, token in enumerate(target)]).mean()


def plain(model: Any, edits: Any, names: list[str], config: FtConfig) -> dict[str, Tensor]:
    """Return the update of plain fine-tuning of the weights, one row at a time, and restore the weights."""
    before = weights_of(model)
    parameters = [model.module.get_parameter(name) for name in names]
    for parameter in parameters:
        parameter.requires_grad = True
    adam = torch.optim.Adam(parameters, lr=config.lr)
    for _ in range(config.epochs or 0):
        adam.zero_grad()
        torch.stack([nll(model, edit) for edit in edits]).mean().backward()
        adam.step()
        with torch.no_grad():
            for name, parameter in zip(names, parameters, strict=True):
                if config.constrained:
                    parameter.copy_(before[name] + (parameter - before[name]).clamp(-config.eps, config.eps))
    found = {name: (model.module.get_parameter(name) - before[name]).detach() for name in names}
    for name, parameter in zip(names, parameters, strict=True):
        parameter.requires_grad, parameter.grad = False, None
        parameter.data.copy_(before[name])
    return found


def released(model: Any, edits: Any, names: list[str], config: FtConfig) -> dict[str, Tensor]:
    """Return the update of the released code: bare prompts, and all target tokens scored at the prompt's last position.

    Batches are padded on the right; the weights are trained in place, clamped after every batch, and restored.
    """
    before = weights_of(model)
    weights = {name: model.module.get_parameter(name).requires_grad_() for name in names}
    adam = torch.optim.Adam(weights.values(), lr=config.lr)
    for _ in range(config.epochs or 0):
        total = 0.0
        for start in range(0, len(edits), config.batch):
            made = [rewrite(edit) for edit in edits[start : start + config.batch]]
            prompts = [torch.tensor(model.encode(one.prompt)) for one in made]
            targets = [torch.tensor(target_ids(model.tokenizer, one.prompt, one.target)) for one in made]
            ids = pad_sequence(prompts, batch_first=True)
            mask = pad_sequence([torch.ones_like(one) for one in prompts], batch_first=True)
            wanted = pad_sequence(targets, batch_first=True)
            scored = pad_sequence([torch.ones_like(one) for one in targets], batch_first=True)
            logits = model.module(input_ids=ids, attention_mask=mask).logits
            logs = logits[torch.arange(len(made)), mask.sum(1) - 1].log_softmax(-1)
            loss = (-(logs.gather(1, wanted) * scored).sum(1) / scored.sum(1)).mean()
            total += loss.item() * len(made)
            if loss.item() >= config.stop_loss:
                adam.zero_grad()
                loss.backward()
                adam.step()
            if config.constrained:
                with torch.no_grad():
                    for name, weight in weights.items():
                        weight.clamp_(before[name] - config.eps, before[name] + config.eps)
        if total / len(edits) < config.stop_loss:
            break
    found = {name: (weight - before[name]).detach() for name, weight in weights.items()}
    for name, weight in weights.items():
        weight.requires_grad, weight.grad = False, None
        weight.data.copy_(before[name])
    return found


@pytest.mark.parametrize("constrained", [True, False], ids=["bounded", "free"])
@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize(("family", "layers"), [("gpt2", (0,)), ("llama", (1,)), ("gptj", (1, 3))])
def test_prompt_last_equals_the_released_code(
    family: Family, layers: tuple[int, ...], batch: int, tmp_path: Path, *, constrained: bool
) -> None:
    config = evolve(
        SMALL,
        objective="prompt-last",
        layers=layers,
        batch=batch,
        constrained=constrained,
        eps=1e-2 if constrained else None,
    )
    model = tiny_model(family, dtype="float64")
    lengths = {len(target_ids(model.tokenizer, rewrite(edit).prompt, rewrite(edit).target)) for edit in FOUR_MOVES}
    assert len(lengths) > 1
    ours = deltas(model, FOUR_MOVES, config, tmp_path)
    theirs = released(model, FOUR_MOVES, list(ours), config)
    for name, delta in ours.items():
        assert float((delta - theirs[name]).norm() / theirs[name].norm()) < 1e-5


def test_objectives_agree_only_for_a_target_of_one_token(tmp_path: Path) -> None:
    model = tiny_model("llama", dtype="float64")
    assert MOVE_TOWER.after is not None
    short = evolve(MOVE_TOWER, after=evolve(MOVE_TOWER.after, objects=(Entity(label="of"),)))
    assert len(target_ids(model.tokenizer, rewrite(short).prompt, "of")) == 1
    for edit, same in ((MOVE_TOWER, False), (short, True)):
        last, target = (
            deltas(model, [edit], evolve(SMALL, objective=objective), tmp_path)
            for objective in ("prompt-last", "target")
        )
        assert all(torch.allclose(last[name], delta, rtol=1e-6, atol=1e-9) == same for name, delta in target.items())


@pytest.mark.parametrize("constrained", [True, False], ids=["bounded", "free"])
@pytest.mark.parametrize(
    ("family", "layers"), [("llama", (1,)), ("gpt2", (0,)), ("gptj", (1, 3)), ("qwen2", (3,)), ("gptneox", (0, 2))]
)
def test_updates_equal_plain_fine_tuning(
    family: Family, layers: tuple[int, ...], tmp_path: Path, *, constrained: bool
) -> None:
    config = evolve(SMALL, layers=layers, constrained=constrained, eps=1e-2 if constrained else None)
    model = tiny_model(family, dtype="float64")
    ours = deltas(model, EDITS, config, tmp_path)
    theirs = plain(model, EDITS, list(ours), config)
    parts = find_parts(model.module)
    assert {parts.layers[layer].weight_name for layer in layers} <= set(ours)
    assert any(name.endswith("bias") for name in ours) == (family in ("gpt2", "gptj", "gptneox"))
    for name, delta in ours.items():
        torch.testing.assert_close(delta, theirs[name], rtol=1e-6, atol=1e-9)


def test_whole_model_passes_equal_cached_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models with norms after the MLP or capped logits use whole passes."""
    model = tiny_model("llama", dtype="float64")
    kept = deltas(model, EDITS, SMALL, tmp_path)
    from ke_plugin_ft import editor

    monkeypatch.setattr(editor, "find_parts", lambda module: evolve(find_parts(module), obstacle="a norm after it"))
    whole = deltas(model, EDITS, SMALL, tmp_path)
    for name, delta in kept.items():
        torch.testing.assert_close(whole[name], delta, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_no_weight_exceeds_the_bound(epochs: int, tmp_path: Path) -> None:
    config = evolve(SMALL, epochs=epochs, lr=1e-3, eps=1e-3)
    for delta in deltas(tiny_model("gpt2", dtype="float64"), EDITS, config, tmp_path).values():
        assert 0.5e-3 < float(delta.abs().max()) <= 1e-3 * (1 + 1e-5)


def test_loss_is_the_likelihood_of_the_target(tmp_path: Path) -> None:
    model = tiny_model("llama", dtype="float64")
    session = make_session(model, root=tmp_path)
    assert len(target_ids(model.tokenizer, "Eiffel Tower is located in", "Madrid")) > 1
    with Ft(SMALL).edit(session, EDITS) as edited:
        found = edited.details["edits"]
        after = {edit.id: float(nll(model, edit)) for edit in EDITS}
    for edit in EDITS:
        assert found[edit.id]["loss_before"] == pytest.approx(float(nll(model, edit)), rel=1e-9)
        assert found[edit.id]["loss_after"] == pytest.approx(after[edit.id], rel=1e-9)


def test_new_object_becomes_more_probable(tmp_path: Path) -> None:
    model = tiny_model("llama")
    request = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome", " Paris"))]
    before = model.score(request)[0].logprobs
    with Ft(evolve(SMALL, epochs=25, constrained=False, eps=None)).edit(make_session(model, root=tmp_path), EDITS):
        after = model.score(request)[0].logprobs
    assert after[0] > before[0] + 1
    assert after[0] > after[1]


def test_non_finite_loss_names_its_edit(tmp_path: Path) -> None:
    model = tiny_model("llama")
    editor, why = Ft(evolve(SMALL, lr=1e37, constrained=False, eps=None)), f"edit '{MOVE_TOWER.id}' is not finite"
    with one_clear_line(model, EditFailed, why), editor.edit(make_session(model, root=tmp_path), EDITS):
        pass


def test_nested_edits_start_from_the_edited_weights(tmp_path: Path) -> None:
    model = tiny_model("llama", dtype="float64")
    session = make_session(model, root=tmp_path)
    with unchanged(model), Ft(SMALL).edit(session, [MOVE_TOWER]):
        here = float(nll(model, MOVE_GATE))
        with Ft(SMALL).edit(session, [MOVE_GATE]) as second:
            assert second.details["edits"][MOVE_GATE.id]["loss_before"] == pytest.approx(here, rel=1e-9)


def test_one_optimizer_step_per_batch(tmp_path: Path) -> None:
    model = tiny_model("llama")
    one = deltas(model, EDITS, evolve(SMALL, epochs=1), tmp_path)
    two = deltas(model, EDITS, evolve(SMALL, epochs=1, batch=1), tmp_path)
    largest = [max(float(delta.abs().max()) for delta in found.values()) for found in (one, two)]
    assert largest[0] == pytest.approx(5e-3, rel=1e-3)
    assert largest[1] > 1.5 * largest[0]


@pytest.mark.parametrize("batch", [1, 3])
def test_all_edits_are_made_with_any_batch_size(batch: int, tmp_path: Path) -> None:
    session = make_session(tiny_model("llama"), root=tmp_path)
    with Ft(evolve(SMALL, batch=batch)).edit(session, FOUR_MOVES) as edited:
        found: Any = edited.details["edits"]
    assert list(found) == [edit.id for edit in FOUR_MOVES]
    assert all(one["loss_after"] < one["loss_before"] for one in found.values())


def test_training_stops_at_stop_loss(tmp_path: Path) -> None:
    with Ft(evolve(SMALL, stop_loss=1e9)).edit(make_session(tiny_model("llama"), root=tmp_path), EDITS) as edited:
        assert edited.details["epochs"] == 1
        assert set(edited.details["largest_changes"].values()) == {0.0}


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    model = tiny_nf4(tmp_path)
    session = make_session(model, root=tmp_path)
    for refuse in (lambda: Ft(SMALL).check(session, ()), lambda: Ft(SMALL).edit(session, EDITS).__enter__()):
        with one_clear_line(model, BadConfig, "is quantized"):
            refuse()


def test_float8_weights_are_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    for block in model.module.model.layers:
        block.mlp.down_proj = Fp8Weight(block.mlp.down_proj)
    session = make_session(model, root=tmp_path)
    for refuse in (lambda: Ft(SMALL).check(session, ()), lambda: Ft(SMALL).edit(session, EDITS).__enter__()):
        with one_clear_line(model, BadConfig, "is quantized .*float8_e4m3fn.*checkpoint"):
            refuse()


def test_recorded_loss_is_that_of_the_rounded_weights(tmp_path: Path) -> None:
    """Changes of 5e-5 are lost in bfloat16, so the loss stays."""
    model = tiny_model("llama", dtype="bfloat16")
    with Ft(evolve(SMALL, eps=5e-5)).edit(make_session(model, root=tmp_path), EDITS) as edited:
        for edit in EDITS:
            recorded: Any = edited.details["edits"]
            assert recorded[edit.id]["loss_after"] == pytest.approx(float(nll(model, edit)), abs=2e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_supported(dtype: str, tmp_path: Path) -> None:
    for delta in deltas(tiny_model("gpt2", dtype=dtype), EDITS, SMALL, tmp_path).values():
        assert bool(delta.isfinite().all())
        assert bool(delta.any())


def test_missing_layers_are_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    editor, session = Ft(evolve(SMALL, layers=(21,))), make_session(model, root=tmp_path)
    for refuse in (lambda: editor.check(session, ()), lambda: editor.edit(session, EDITS).__enter__()):
        with one_clear_line(model, KEError, "layers 21 do not fit a model of 4 layers"):
            refuse()


def test_zero_bias_has_no_relative_norm(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    name = "transformer.h.1.mlp.c_proj.bias"
    model.module.get_parameter(name).data.zero_()
    with Ft(SMALL).edit(make_session(model, root=tmp_path), EDITS) as edited:
        norms = edited.details["relative_update_norms"]
    assert norms.pop(name) is None
    assert all(norm > 0 for norm in norms.values())


def test_training_inside_an_adaptor_sees_whole_passes(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with (
        open_shift(model, "model.layers.2.mlp.down_proj", 64),
        Ft(evolve(SMALL, objective="target")).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited,
    ):
        details: Any = edited.details
        losses = details["edits"][MOVE_TOWER.id]
        assert losses["loss_after"] == pytest.approx(answer_loss(model, MOVE_TOWER), abs=1e-5)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"constrained": False}, "constrained=false"),
        ({"profile": "locft-bf"}, "profile=locft-bf"),
        ({"profile": "locft-bf", "constrained": False}, "constrained=false"),
    ],
)
def test_bound_without_effect_is_refused(options: Any, reason: str) -> None:
    with pytest.raises(BadConfig, match=f"ft.eps=0.1 has no effect with {reason}"):
        Ft(FtConfig(eps=0.1, **options))
    Ft(FtConfig(eps=0.1, **options | {"constrained": True}))
