"""Inputs and output gradients of linear layers: the factors of a weight's gradient.

For a linear layer W on the tokens of a batch, dL/dW = sum_t g_t x_t^T, with its input x_t and g_t = dL/d(output_t).
Hooks on the layer's output record both; W itself needs no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_core.plugin import uninterruptible_context
from ke_plugin_hf.layer_calls import prompt_lengths
from ke_weights.hooks import Hooks, forward
from ke_weights.scored_tokens import ScoredTokens

LOSS_SCALE = {torch.float16: 2.0**10}
"""Gradients underflow in half precision. A power of two scales the loss without rounding."""


@frozen(kw_only=True, eq=False)
class LayerGradients:
    """Of each layer the ``inputs`` x [rows, T, in] and the ``gradients`` g [rows, T, out]; float32 or better.

    The gradients are those of the sum of the rows' losses. ``losses`` [rows], ``logits``: detached.
    """

    inputs: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor]
    losses: Tensor
    logits: Tensor


def layer_gradients(
    module: nn.Module, names: Sequence[str], batch: ScoredTokens, unscored: tuple[Tensor, Tensor] | None = None
) -> LayerGradients:
    """Run ``batch`` forward and backward once. Gradients must be enabled and parameters frozen.

    ``unscored``: ids and mask of rows that are run in the same pass and not scored; they come last.
    """
    ids, mask = (batch.ids, batch.mask) if unscored is None else stacked((batch.ids, batch.mask), unscored)
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}

    def seen(name: str, args: tuple[Any, ...], output: Tensor) -> None:
        inputs[name] = args[0].detach()
        outputs[name] = output.requires_grad_()  # the graph begins at the first layer's output

    others = () if unscored is None else unscored[1].sum(1).tolist()
    with hooked(module, names, seen), prompt_lengths((*batch.prompts, *others)):
        logits = forward(module, ids, mask).logits
    losses = batch.nll(batch.pick(logits))
    scale = LOSS_SCALE.get(logits.dtype, 1.0)
    found = torch.autograd.grad(losses.sum() * scale, [outputs[name] for name in names])
    gradients = dict(zip(names, found, strict=True))

    def precise(tensor: Tensor, name: str) -> Tensor:  # OPT's layers get [rows * T, in]
        dtype = torch.promote_types(gradients[name].dtype, torch.float32)
        return tensor.reshape(*ids.shape, -1).to(dtype)

    return LayerGradients(
        inputs={name: precise(inputs[name], name) for name in names},
        gradients={name: precise(gradients[name], name) / scale for name in names},
        losses=losses.detach(),
        logits=logits.detach(),
    )


@uninterruptible_context
def hooked(
    module: nn.Module, names: Sequence[str], see: Callable[[str, tuple[Any, ...], Tensor], Tensor | None]
) -> Iterator[None]:
    """Call ``see(name, args, output)`` after each of the layers; its result, if any, is the new output."""
    with Hooks() as hooks:
        for name in names:

            def hook(_module: nn.Module, args: tuple[Any, ...], output: Tensor, name: str = name) -> Tensor | None:
                return see(name, args, output)

            hooks.add(module.get_submodule(name), hook)
        yield


def stacked(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return ids and mask of two batches concatenated, padded to the longer one."""
    width = max(one[0].shape[1], other[0].shape[1])
    ids, mask = (
        torch.cat([nn.functional.pad(part, (0, width - part.shape[1])) for part in parts])
        for parts in zip(one, other, strict=True)
    )
    return ids, mask
