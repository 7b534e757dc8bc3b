"""The rank-one factors of a gradient, and updates in side branches of the weights.

For a linear layer W on the tokens of a batch, dL/dW = sum_t g_t x_t^T, with its input x_t and g_t = dL/d(output_t)
(MEND section 3). Hooks on the layer's output record both; W itself needs no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_weights.plugin import Hooks, ModuleMap, ScoredTokens, forward, uninterruptible_context

LOSS_SCALE = {torch.float16: 2.0**10}
"""Gradients underflow in half precision. A power of two scales the loss without rounding."""


@frozen(eq=False)
class GradientFactors:
    """Factors of one matrix, for the M tokens with non-zero factors; float32 or better.

    ``x`` [M, in], ``g`` [M, out], and ``row`` [M], the token's row in the batch.
    """

    x: Tensor
    g: Tensor
    row: Tensor

    def scaled(self, weights: Tensor) -> GradientFactors:
        """Return the factors of the weighted sum of the rows' losses; ``weights`` [rows or more]."""
        return GradientFactors(self.x, self.g * weights[self.row, None].to(self.g), self.row)


def targets(modules: ModuleMap, blocks: int) -> tuple[str, ...]:
    """Return the edited layers: every matrix of the MLPs of the last ``blocks`` blocks (MEND appendix)."""
    chosen = modules.layers[-blocks:]
    return tuple(name for layer in chosen for name in (*layer.expansion, layer.projection_name))


def factors(
    module: nn.Module, names: Sequence[str], batch: ScoredTokens, unscored: tuple[Tensor, Tensor] | None = None
) -> tuple[dict[str, GradientFactors], Tensor, Tensor]:
    """Return the factors of the sum of the rows' losses, each row's loss [rows], and all logits, both detached.

    ``unscored``: ids and mask of rows that are run in the same pass and not scored; their logits come last. Gradients
    must be enabled and parameters frozen.
    """
    ids, mask = (batch.ids, batch.mask) if unscored is None else stacked((batch.ids, batch.mask), unscored)
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}

    def seen(name: str, args: tuple[Any, ...], output: Tensor) -> None:
        inputs[name] = args[0].detach()
        outputs[name] = output.requires_grad_()  # the graph begins at the first layer's output

    with hooked(module, names, seen):
        logits = forward(module, ids, mask).logits
    losses = batch.nll(batch.pick(logits))
    scale = LOSS_SCALE.get(logits.dtype, 1.0)
    gradients = torch.autograd.grad(losses.sum() * scale, [outputs[name] for name in names])
    row = torch.arange(len(ids), device=ids.device).repeat_interleave(ids.shape[1])
    real = mask.flatten().bool() & (row < len(batch.ids))  # on overflow, unscored rows have NaN gradients
    found = {}
    for name, gradient in zip(names, gradients, strict=True):
        precise = torch.promote_types(gradient.dtype, torch.float32)
        x = inputs[name].flatten(0, -2).to(precise)  # OPT's layers get [rows * T, in]
        g = gradient.flatten(0, -2).to(precise) / scale
        keep = real.to(x.device) & (x != 0).any(dim=-1) & (g != 0).any(dim=-1)
        # If the model is on several devices, factors move to the device of its input.
        found[name] = GradientFactors(x[keep].to(ids.device), g[keep].to(ids.device), row[keep.to(ids.device)])
    return found, losses.detach(), logits.detach()


@uninterruptible_context
def hooked(module: nn.Module, names: Sequence[str], see: Any) -> Iterator[None]:
    """Call ``see(name, args, output)`` after each of the layers; its result, if any, is the new output."""
    with Hooks() as hooks:
        for name in names:

            def hook(_module: nn.Module, args: tuple[Any, ...], output: Tensor, name: str = name) -> Any:
                return see(name, args, output)

            hooks.add(module.get_submodule(name), hook)
        yield


@uninterruptible_context
def side_branches(module: nn.Module, updates: Mapping[str, tuple[Tensor, Tensor]], rows: int) -> Iterator[None]:
    """Make each layer act as W + left right, with another update per row of the batch: y + left (right x).

    ``updates``: by name ``left`` [rows, out, K] and ``right`` [rows, K, in]. Equal to updated weights up to rounding,
    and differentiable.
    """

    def branch(name: str, args: tuple[Any, ...], output: Tensor) -> Tensor:
        left, right = (factor.to(output.device) for factor in updates[name])
        x = args[0].reshape(rows, -1, right.shape[-1]).to(right.dtype)
        added = x @ right.transpose(1, 2) @ left.transpose(1, 2)
        changed: Tensor = output + added.reshape(output.shape).to(output.dtype)
        return changed

    with hooked(module, list(updates), branch):
        yield


def stacked(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return ids and mask of two batches concatenated, padded to the longer one."""
    width = max(one[0].shape[1], other[0].shape[1])
    ids, mask = (
        torch.cat([nn.functional.pad(part, (0, width - part.shape[1])) for part in parts])
        for parts in zip(one, other, strict=True)
    )
    return ids, mask
