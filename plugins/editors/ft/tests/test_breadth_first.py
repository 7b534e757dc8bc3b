"""LocFT-BF against a plain loop over epochs, shuffled mini-batches and rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadConfig, Edit, Session
from ke_plugin_ft import FtConfig, training
from ke_plugin_ft.editor import Ft
from ke_plugin_hf.testing import Family, tiny_model
from ke_testing.editor import one_clear_line
from ke_testing.examples import FOUR_MOVES, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.plugin import rewrite, scored_tokens, target_ids
from ke_weights.testing.weights import changes, weights_of

SMALL = FtConfig(profile="locft-bf", layers=(1,), epochs=6, lr=5e-3)
SEED = 3
pytestmark = pytest.mark.usefixtures("one_thread")


def row(model: Any, edit: Edit, *, eos: bool = True) -> tuple[list[int], int]:
    """Return the ids of the prompt with the object and EOS, and the length of the prompt."""
    made = rewrite(edit)
    prompt = model.encode(made.prompt)
    end = [model.tokenizer.eos_token_id] if eos else []
    return [*prompt, *target_ids(model.tokenizer, made.prompt, made.target), *end], len(prompt)


def loss_of(model: Any, edit: Edit, *, eos: bool = True, left: int = 0) -> Tensor:
    """Return the mean negative log-likelihood of the object's tokens, with ``left`` masked tokens before the row."""
    ids, start = row(model, edit, eos=eos)
    places = torch.tensor([[0] * left + list(range(len(ids)))])
    mask = torch.tensor([[0] * left + [1] * len(ids)])
    found = model.module(input_ids=torch.tensor([[0] * left + ids]), attention_mask=mask, position_ids=places)
    logs = found.logits[0, left:].log_softmax(-1)
    return -torch.stack([logs[at - 1, ids[at]] for at in range(start, len(ids))]).mean()


def plain(
    model: Any, edits: Sequence[Edit], name: str, config: FtConfig, *, eos: bool = True, shuffled: bool = True
) -> tuple[Tensor, int]:
    """Train one weight in place. Return its change and the number of epochs, and restore it."""
    weight = model.module.get_parameter(name).requires_grad_()
    before = weight.detach().clone()
    assert config.lr
    adam, draw = torch.optim.Adam([weight], lr=config.lr), torch.Generator().manual_seed(SEED)
    size = config.batch or 100
    epochs = 0
    while epochs < (config.epochs or 25):
        epochs += 1
        order, total = list(range(len(edits))), 0.0
        if shuffled:
            order = torch.randperm(len(edits), generator=draw).tolist()
        for start in range(0, len(edits), size):
            chosen = order[start : start + size]
            loss = torch.stack([loss_of(model, edits[at], eos=eos) for at in chosen]).mean()
            total += float(loss.detach()) * len(chosen)
            if float(loss.detach()) >= config.stop_loss:
                adam.zero_grad()
                loss.backward()
                adam.step()
        if total / len(edits) < config.stop_loss:
            break
    change = (weight - before).detach()
    weight.requires_grad, weight.grad = False, None
    weight.data.copy_(before)
    return change, epochs


def trained(model: Any, edits: Sequence[Edit], config: FtConfig, root: Path) -> tuple[dict[str, Tensor], Any]:
    """Return our changes of the weights, and the details."""
    before = weights_of(model)
    with Ft(config).edit(opened(model, root), edits) as edited:
        return changes(model, before), edited.details


def opened(model: Any, root: Path) -> Session[Any]:
    return make_session(model, root=root, seed=SEED)


def off(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-5), ("float64", 1e-9)])
@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize(("family", "layer"), [("llama", 1), ("qwen2", 2)])
def test_update_equals_the_plain_loop(
    family: Family, layer: int, batch: int, dtype: str, close: float, tmp_path: Path
) -> None:
    config = evolve(SMALL, layers=(layer,), batch=batch)
    model = tiny_model(family, dtype=dtype)
    ours, _details = trained(model, FOUR_MOVES, config, tmp_path)
    ((name, change),) = ours.items()
    assert name == f"model.layers.{layer}.mlp.down_proj.weight"
    assert off(change, plain(model, FOUR_MOVES, name, config)[0]) < close


def test_easy_batches_are_skipped_and_training_stops_at_the_mean(tmp_path: Path) -> None:
    config = evolve(SMALL, epochs=25, lr=2e-2, batch=2, stop_loss=0.3)
    model = tiny_model("llama", dtype="float64")
    ours, details = trained(model, FOUR_MOVES, config, tmp_path)
    ((name, change),) = ours.items()
    theirs, epochs = plain(model, FOUR_MOVES, name, config)
    assert 2 < details["epochs"] == epochs < 25
    assert off(change, theirs) < 1e-5


def test_one_edit_at_a_time_equals_ft_m(tmp_path: Path) -> None:
    """FT-M trains the object of one edit to convergence, then the next edit."""
    config = evolve(SMALL, epochs=25, lr=2e-2, batch=1, eos=False)
    model = tiny_model("llama", dtype="float64")
    name, before = "model.layers.1.mlp.down_proj.weight", weights_of(model)
    session = opened(model, tmp_path)
    with ExitStack() as active:
        for edit in FOUR_MOVES:
            active.enter_context(Ft(config).edit(session, [edit]))
        ours = changes(model, before)[name]
    weight = model.module.get_parameter(name)
    for edit in FOUR_MOVES:
        weight.data += plain(model, [edit], name, config, eos=False, shuffled=False)[0]
    assert off(ours, weight - before[name]) < 1e-5
    weight.data.copy_(before[name])
    depth_first = evolve(config, profile="default", constrained=False, objective="target")
    with ExitStack() as active:
        for edit in FOUR_MOVES:
            active.enter_context(Ft(depth_first).edit(session, [edit]))
        assert torch.equal(changes(model, before)[name], ours)


def test_shuffling_changes_only_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []
    step = training._step

    def watched(batch: Any, *others: Any) -> float:
        seen.append(batch.names)
        return step(batch, *others)

    monkeypatch.setattr(training, "_step", watched)
    trained(tiny_model("llama"), FOUR_MOVES, evolve(SMALL, batch=3, stop_loss=0.0), tmp_path)
    assert [len(names) for names in seen] == [3, 1] * 6
    epochs = [seen[at] + seen[at + 1] for at in range(0, 12, 2)]
    assert len(set(epochs)) > 1
    assert {tuple(sorted(epoch)) for epoch in epochs} == {tuple(sorted(edit.id for edit in FOUR_MOVES))}


def test_order_within_one_mini_batch_does_not_matter(tmp_path: Path) -> None:
    model = tiny_model("llama", dtype="float64")
    ours, _details = trained(model, FOUR_MOVES, SMALL, tmp_path)
    reverse, _details = trained(model, FOUR_MOVES[::-1], SMALL, tmp_path)
    for name, change in ours.items():
        assert off(reverse[name], change) < 1e-9


def test_prompt_tokens_have_no_loss_gradient(tmp_path: Path) -> None:
    """The gradient of the loss is zero for the logits of every position that does not predict a target token."""
    model = tiny_model("llama", dtype="float64")
    rows = [row(model, edit) for edit in FOUR_MOVES]
    scored = scored_tokens([(ids[:start], ids[start:]) for ids, start in rows], torch.device("cpu"))
    with torch.no_grad():
        logits = model.module(input_ids=scored.ids, attention_mask=scored.mask).logits
    logits.requires_grad_()
    scored.nll(scored.pick(logits)).mean().backward()
    for (ids, start), gradient in zip(rows, logits.grad, strict=True):
        used = gradient.abs().sum(-1) > 0
        assert used.tolist() == [start - 1 <= at < len(ids) - 1 for at in range(len(used))]


def test_padding_side_does_not_change_the_loss(tmp_path: Path) -> None:
    model = tiny_model("llama", dtype="float64")
    found = {}
    for side in ("left", "right"):
        model.tokenizer.padding_side = side
        found[side] = trained(model, FOUR_MOVES, SMALL, tmp_path)[1]["edits"]
    assert found["left"] == found["right"]
    for edit in FOUR_MOVES:
        with torch.no_grad():
            losses = [float(loss_of(model, edit, left=left)) for left in (0, 5)]
        assert found["left"][edit.id]["loss_before"] == pytest.approx(losses[0], rel=1e-9)
        assert losses[1] == pytest.approx(losses[0], rel=1e-9)


def test_end_of_sequence_token_becomes_more_probable(tmp_path: Path) -> None:
    model = tiny_model("llama", dtype="float64")
    ids, _start = row(model, MOVE_TOWER)

    def ending() -> float:
        with torch.no_grad():
            return float(model.module(input_ids=torch.tensor([ids])).logits[0, -2].log_softmax(-1)[ids[-1]])

    before = ending()
    with Ft(SMALL).edit(opened(model, tmp_path), FOUR_MOVES):
        assert ending() > before + 0.5


def test_impossible_endings_are_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with one_clear_line(model, BadConfig, "objective=prompt-last"):
        Ft(evolve(SMALL, objective="prompt-last")).check(opened(model, tmp_path), ())
    model.tokenizer.eos_token = None
    with one_clear_line(model, BadConfig, "no end-of-sequence token"):
        Ft(SMALL).check(opened(model, tmp_path), ())
