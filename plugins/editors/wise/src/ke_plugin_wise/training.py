"""Train a side memory on one edit (WISE section 2.3), outside the model: its weights are read, never written.

Rows are the request after several left contexts. While a memory is trained, every row uses it. An unrelated text is
only scored: the input of W does not depend on W', so it is computed once per edit. SGD changes the entries that the
mask M of the current shard selects (equation 9), and no entry moves away from W by more than ``clamp``:

    D <- clamp(D - lr M * (g + weight_decay D), -clamp, clamp),    D = W' - W,  g = dL/dW'

As released, W' decays instead of D, in all entries: over many edits, the side memory loses a part of W.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor, nn

from ke_core.plugin import EditFailed
from ke_plugin_wise.objective import Margins, wise_loss
from ke_plugin_wise.routing import routing_score, side_difference
from ke_weights.plugin import (
    Hooks,
    ModuleMap,
    TrainingRows,
    forward,
    frozen_module,
    map_orientation,
    prompt_lengths,
    training_rows,
    uninterruptible_context,
)

STOP_LOSS, STOP_CHANGE = 0.02, 1e-4
"""Training ends when the loss is at most the first and has changed by at most the second, as released."""


@frozen(kw_only=True)
class TrainingSettings:
    """Hyperparameters of one edit. ``activation``: of the routing score, "" for none."""

    steps: int
    lr: float
    margins: Margins
    weight_decay: float
    clamp: float
    activation: str
    released: bool


@frozen(kw_only=True, eq=False)
class Place:
    """The linear map whose copy is the side memory: ``layer`` is its block, ``bias`` what side memories leave out."""

    modules: ModuleMap
    name: str
    layer: int
    bias: Tensor | None

    @property
    def module(self) -> nn.Module:
        """The linear map."""
        return self.modules.module.get_submodule(self.name)

    @property
    def matrix(self) -> Tensor:
        """W as [out, in], without a copy."""
        return map_orientation(self.module, self.module.get_parameter("weight").detach())


@frozen(kw_only=True, eq=False)
class EditRows:
    """The rows of an edit, and the unrelated text. ``tokens`` [R, T]: positions of the routing score.

    ``unrelated``: input [1, U, in] and output [1, U, out] of W at the unrelated text.
    """

    rows: TrainingRows = field(repr=False)
    tokens: Tensor
    target: int
    unrelated: tuple[Tensor, Tensor] = field(repr=False)


@frozen(kw_only=True, eq=False)
class Learned:
    """The trained D, the routing scores a_in (mean over the rows) and a_out, the last loss, and the number of steps."""

    difference: Tensor
    inside: float
    outside: float
    loss: float
    steps: int


def edit_rows(
    place: Place,
    prompts: Sequence[Sequence[int]],
    target: Sequence[int],
    unrelated: Sequence[int],
    *,
    released: bool,
    whole: bool,
) -> EditRows:
    """Return the rows of an edit from the ids of its prompts, its target and an unrelated text.

    The score is over prompts, or, as released, over prompts and target. ``whole``: run the whole model in each step.
    """
    rows = training_rows(place.modules, [(prompt, target) for prompt in prompts], place.layer, whole=whole)
    prompt = torch.arange(rows.ids.shape[1]) < torch.tensor(rows.scored.prompts)[:, None]
    tokens = (rows.mask != 0) if released else prompt.to(rows.mask.device)
    return EditRows(rows=rows, tokens=tokens, target=len(target), unrelated=_call_of(place, unrelated))


def _call_of(place: Place, text: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the input [1, U, in] and the output [1, U, out] of W at a text of U token ids."""
    seen: list[Tensor] = []
    ids = torch.tensor([text], device=place.modules.device)
    with frozen_module(place.modules.module), prompt_lengths([len(text)]), Hooks() as hooks:
        hooks.add(place.module, lambda _module, args, output: seen.extend((args[0], output)))
        hooks.stop_after(place.module)
        forward(place.modules.module, ids, torch.ones_like(ids))
    inputs, output = seen
    return inputs.reshape(*ids.shape, -1), output.reshape(*ids.shape, -1)  # some families flatten the batch


def learn(
    place: Place, rows: EditRows, start: Tensor, mask: Tensor, settings: TrainingSettings, *, edit: str
) -> Learned:
    """Train D from ``start`` [out, in] on the edit called ``edit``; entries outside ``mask`` stay.

    Raises EditFailed if the loss is not finite.
    """
    difference = start.clone()
    base = place.matrix.to(difference.dtype)
    losses: list[float] = []
    with frozen_module(place.modules.module):
        while len(losses) < settings.steps and not _stops(losses):
            with torch.enable_grad():
                difference.requires_grad_()
                loss, _inside, _outside = _evaluate(place, rows, difference, settings)
                (gradient,) = torch.autograd.grad(loss, difference)
            losses.append(float(loss.detach()))
            difference = masked_step(difference.detach(), gradient, base, mask, settings)
        loss, inside, outside = _evaluate(place, rows, difference, settings)
    if not bool(loss.isfinite()) or not bool(difference.isfinite().all()):
        raise EditFailed(
            f"the loss of edit {edit!r} is not finite while a side memory is trained",
            hint="lower -o wise.lr, or load the model with --dtype float32",
        )
    return Learned(
        difference=difference, inside=float(inside.mean()), outside=float(outside), loss=float(loss), steps=len(losses)
    )


def masked_step(difference: Tensor, gradient: Tensor, base: Tensor, mask: Tensor, settings: TrainingSettings) -> Tensor:
    """Return D after one step of SGD and the clamp, for the gradient by W' and ``base``, W. All [out, in].

    Overwrites ``difference`` and ``gradient``: with few rows, new matrices would cost as much as the forward pass.
    """
    if settings.released:
        step = gradient.mul_(mask).add_(base + difference, alpha=settings.weight_decay)
    else:
        step = gradient.add_(difference, alpha=settings.weight_decay).mul_(mask)
    return difference.sub_(step, alpha=settings.lr).clamp_(-settings.clamp, settings.clamp)


def shard_mask(shape: Sequence[int], ratio: float, seed: int, device: torch.device) -> Tensor:
    """Return the mask of a shard [out, in]: each entry is true with probability ``ratio``; equal for equal seeds."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator, dtype=torch.float32) < ratio).to(device)


def _stops(losses: Sequence[float]) -> bool:
    return len(losses) > 1 and losses[-1] <= STOP_LOSS and abs(losses[-1] - losses[-2]) <= STOP_CHANGE


def _evaluate(
    place: Place, rows: EditRows, difference: Tensor, settings: TrainingSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss, a_in of each row, and a_out [1], with D as ``difference``."""
    with _forced(place, rows, difference, settings.activation) as scores:
        nll = rows.rows.scored.nll(rows.rows.logits())
    inputs, output = rows.unrelated
    moved = side_difference(inputs, difference, place.bias)
    tokens = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
    outside = routing_score(output, moved, tokens, settings.activation).to(nll.device)
    inside = scores[0].to(nll.device)
    loss = wise_loss(nll, inside, outside, settings.margins, tokens=rows.target, released=settings.released)
    return loss, inside, outside


@uninterruptible_context
def _forced(place: Place, rows: EditRows, difference: Tensor, activation: str) -> Iterator[list[Tensor]]:
    """Use the side memory in every row while the block runs. Yield a list that gets the routing scores [R]."""
    scores: list[Tensor] = []
    shape = (*rows.tokens.shape, -1)  # some families flatten the batch before an MLP

    def hook(_module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        moved = side_difference(args[0].reshape(shape), difference, place.bias)
        tokens = rows.tokens.to(output.device)
        scores.append(routing_score(output.reshape(shape), moved, tokens, activation))
        return (output + moved.reshape(output.shape)).to(output.dtype)

    with Hooks() as hooks:
        hooks.add(place.module, hook)
        yield scores
