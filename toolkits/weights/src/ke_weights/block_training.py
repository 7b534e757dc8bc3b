"""Training of one whole block so that it outputs given states (UnKE section 3.3).

    minimize  MSE(block(x_edit), y_edit) + MSE(block(x_keep), y_keep)   over all parameters of the block

x are the block's inputs, y its current outputs; in y_edit the optimized states replace those at their positions. The
block is called with the model's own masks and positions (``tail``). Parameters are trained outside the model: the
result is their change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_core.plugin import EditFailed, Progress
from ke_plugin_hf.guard import map_orientation
from ke_weights.answer_states import AnswerStates
from ke_weights.gradients import LOSS_SCALE
from ke_weights.hooks import frozen_module
from ke_weights.modules import ModuleMap
from ke_weights.subject import SubjectTokens
from ke_weights.tail import Call, open_tail

NAMED = 3
"""Maximum number of edits in an error message."""


@frozen(kw_only=True)
class BlockSettings:
    """``steps`` of AdamW for block ``layer``. ``padding``: the mean squared error counts padding positions too."""

    layer: int
    steps: int
    lr: float
    weight_decay: float
    padding: bool


@frozen(kw_only=True, eq=False)
class BlockResult:
    """Updates by parameter name, weights as [out, in]; the loss before and after."""

    updates: Mapping[str, Tensor]
    before: float
    after: float


@frozen(kw_only=True, eq=False)
class BlockRows:
    """Rows through one block: ``inputs`` and ``wanted`` [rows, T, d], and the ``weight`` of each position [rows, T].

    The weights sum to one, so the loss is a mean over positions.
    """

    call: Call
    inputs: Tensor
    wanted: Tensor
    weight: Tensor

    def loss(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Return the mean squared error of the block with these parameters."""
        off = self.call.run(self.inputs, parameters).to(self.wanted.dtype) - self.wanted
        return (off.pow(2).mean(-1) * self.weight).sum()


def train_block(
    modules: ModuleMap,
    edits: Sequence[AnswerStates],
    keep: Sequence[Sequence[int]],
    settings: BlockSettings,
    progress: Progress,
) -> BlockResult:
    """Train a block on ``edits`` and on rows of token ids to ``keep``. Raises EditFailed if the loss is not finite."""
    place = modules.layers[settings.layer]
    original = {name: value.detach() for name, value in place.block.named_parameters()}
    with frozen_module(modules.module):
        parts = [_rows(modules, settings, [one.ids for one in edits], edits), _rows(modules, settings, keep, ())]
        trained = {name: value.to(modules.dtype, copy=True) for name, value in original.items()}

        def loss() -> Tensor:
            cast = {name: value.to(original[name].dtype) for name, value in trained.items()}
            return torch.stack([part.loss(cast).to(modules.dtype) for part in parts]).sum()

        names = [one.id for one in edits]
        before = _finite(loss(), names)
        with torch.enable_grad():
            for value in trained.values():
                value.requires_grad_()
            adam = torch.optim.AdamW(_groups(place.block, trained, settings), lr=settings.lr)
            for _step in progress.track(range(settings.steps), "training a block"):
                now = loss()
                _finite(now, names)
                scale = LOSS_SCALE.get(parts[0].inputs.dtype, 1.0)
                found: Sequence[Tensor | None] = torch.autograd.grad(
                    now * scale, list(trained.values()), allow_unused=True
                )
                for value, gradient in zip(trained.values(), found, strict=True):
                    value.grad = None if gradient is None else gradient / scale
                adam.step()
        after = _finite(loss(), names)
    updates = {
        f"{place.name}.{name}": map_orientation(_owner(place.block, name), (value - original[name].to(value)).detach())
        for name, value in trained.items()
    }
    return BlockResult(updates=updates, before=before, after=after)


def _rows(
    modules: ModuleMap, settings: BlockSettings, ids: Sequence[Sequence[int]], edits: Sequence[AnswerStates]
) -> BlockRows:
    """Run rows up to the block, and through it. ``edits``: of the first rows."""
    tail = open_tail(modules, [SubjectTokens(tuple(row), 0) for row in ids], settings.layer - 1)
    call = tail.calls[0]
    wanted = call.run(tail.hidden).to(modules.dtype)
    for row, edit in enumerate(edits):
        wanted[row, list(edit.positions)] = edit.z.to(wanted)
    weight = torch.ones(wanted.shape[:2], dtype=wanted.dtype, device=wanted.device)
    if not settings.padding:
        for row, tokens in enumerate(ids):
            weight[row, len(tokens) :] = 0
    return BlockRows(call=call, inputs=tail.hidden, wanted=wanted, weight=weight / weight.sum())


def _groups(block: nn.Module, trained: Mapping[str, Tensor], settings: BlockSettings) -> list[dict[str, Any]]:
    """Return the parameter groups of AdamW; norms have no weight decay."""
    norms = {name for name in trained if _is_norm(_owner(block, name))}
    return [
        {"params": [trained[name] for name in trained if name not in norms], "weight_decay": settings.weight_decay},
        {"params": [trained[name] for name in trained if name in norms], "weight_decay": 0.0},
    ]


def _owner(block: nn.Module, name: str) -> nn.Module:
    return block.get_submodule(name.rpartition(".")[0])


def _is_norm(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.dim() == 1


def _finite(loss: Tensor, edits: Sequence[str]) -> float:
    value = float(loss.detach())
    if not torch.isfinite(loss.detach()):
        named = ", ".join(map(repr, edits[:NAMED])) + (f" and {len(edits) - NAMED} more" if len(edits) > NAMED else "")
        raise EditFailed(
            f"the loss is not finite while training a block for edit{'s' * (len(edits) > 1)} {named}",
            hint="lower the option block_lr, or load the model with --dtype float32",
        )
    return value
