"""The loss of one training step, and its gradient, with the model and the network decoupled.

RLEdit's step t of a sequence edits batch t on a model that has S_1 + ... + S_(t-1), and uses the loss after it:

    L = sum_(i<b) discount^i [ edit * CE(wordings of batch t-i) + locality * KL(model before t || model after) ]
        + shift |S_t|^2                            b = min(t, window); KL on the other text of batch t-i

MALMEN is the case of sequences of one batch (section 3.3). First the model: S is a constant, and L gives dL/dS. Then
the network: dL/dS gives dL/dD and dL/dlambda (``RidgeShift``), and dL/dD the gradient of the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_plugin_malmen.network import MalmenNetwork
from ke_weights.hypernetwork import EditBatch, GradientFactors, StepLosses, divergence, finite, gradient_factors
from ke_weights.plugin import RidgeShift, forward, hooked, stacked, uninterruptible_context

Shifts = Mapping[str, Tensor]
"""S [in, out] by layer name, float32 or better: never rounded to the dtype of the weights."""


@frozen(kw_only=True)
class SequenceWeights:
    """Weights of the terms of the loss."""

    edit: float
    locality: float
    shift: float
    discount: float


@frozen(kw_only=True, eq=False)
class SequenceStep:
    """The losses of a step, of the current batch, and the sum of all shifts after it."""

    losses: StepLosses
    shifts: dict[str, Tensor]


def sequence_step(
    module: nn.Module, network: MalmenNetwork, batches: Sequence[EditBatch], before: Shifts, weights: SequenceWeights
) -> SequenceStep:
    """Edit the first of ``batches``, the newest, on a model with the shifts ``before``, and add the gradients.

    The normalizers are updated first. A step with numbers that are not finite adds no gradients and no shifts.
    Gradients must be enabled, and the parameters of the model frozen.
    """
    names = tuple(network.shapes)
    with shifted(module, before):
        found, unedited, _logits = gradient_factors(module, names, batches[0].inner, answers=True)
    network.observe(found)
    if not finite([*(one.x for one in found.values()), *(one.g for one in found.values())]):
        return _not_finite(before)
    changes = {name: network.changes(name, found[name]) for name in names}
    solved = {name: solve(network, name, found[name], changes[name].detach()) for name in names}
    made = {name: one.shift().to(changes[name]) for name, one in solved.items()}
    after = {name: (before[name] + s if before else s).detach().requires_grad_() for name, s in made.items()}
    losses = _model_gradients(module, batches, before, after, weights)
    if not finite([losses.total, *(one.grad for one in after.values())]):
        return _not_finite(before)
    total = losses.total
    for name, s in made.items():
        of_shift = after[name].grad
        assert of_shift is not None
        total = total + weights.shift * s.square().sum()
        of_change, of_ridge = solved[name].gradients(of_shift + 2 * weights.shift * s)
        torch.autograd.backward(
            [changes[name], network.ridge(name)],
            [of_change.to(changes[name]), torch.tensor(of_ridge).to(network.ridges)],
        )
    return SequenceStep(
        losses=StepLosses(total, losses.edit, losses.locality, float(unedited.mean())),
        shifts={name: one.detach() for name, one in after.items()},
    )


def _not_finite(before: Shifts) -> SequenceStep:
    """Return a step with numbers that are not finite. Its total is NaN, so the training counts it as skipped."""
    return SequenceStep(losses=StepLosses(torch.tensor(torch.nan), 0.0, 0.0, 0.0), shifts=dict(before))


def solve(network: MalmenNetwork, name: str, found: GradientFactors, changes: Tensor) -> RidgeShift:
    """Return S of one matrix, which gives its inputs the wanted changes D with the ridge e^lambda."""
    return RidgeShift.of(found.x, changes, float(network.ridge(name).detach().exp()))


def _model_gradients(
    module: nn.Module, batches: Sequence[EditBatch], before: Shifts, after: Shifts, weights: SequenceWeights
) -> StepLosses:
    """Add dL/dS, without the term |S|^2, to the gradients of ``after``. Return the losses; ``edit``: of the newest."""
    total, newest = torch.zeros(()), (0.0, 0.0)
    for age, batch in enumerate(batches):
        edits, width = batch.ids.shape
        with torch.no_grad(), shifted(module, before):
            base = forward(module, batch.ids, batch.mask).logits
        with shifted(module, after):
            ids, mask = stacked((batch.outer.ids, batch.outer.mask), (batch.ids, batch.mask))
            now = forward(module, ids, mask).logits
        edit = batch.outer.nll(batch.outer.pick(now)).mean()
        locality = divergence(base, now[edits:, :width], batch.mask).mean()
        loss = weights.discount**age * (weights.edit * edit + weights.locality * locality)
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        total = total + loss.detach().cpu()
        newest = newest if age else (float(edit.detach()), float(locality.detach()))
    return StepLosses(total, *newest, before=0.0)


@uninterruptible_context
def shifted(module: nn.Module, shifts: Shifts) -> Iterator[None]:
    """Make each layer act as if its weight had S^T added: y + x S. Differentiable in S; the weights do not change."""

    def shift(name: str, args: tuple[Any, ...], output: Tensor) -> Tensor:
        s = shifts[name].to(output.device)
        changed: Tensor = output + (args[0].to(s.dtype) @ s).to(output.dtype)
        return changed

    with hooked(module, list(shifts), shift):
        yield
