"""The rank-one factors of a gradient, and updates in side branches of the weights.

For a linear layer W on the tokens of a batch, dL/dW = sum_t g_t x_t^T, with its input x_t and g_t = dL/d(output_t)
(MEND section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen
from torch import Tensor, nn

from ke_weights.plugin import ModuleMap, ScoredTokens, hooked, layer_gradients, uninterruptible_context


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
    made, (rows, width), device = layer_gradients(module, names, batch, unscored), batch.ids.shape, batch.ids.device
    found = {}
    for name in names:
        x, g = made.inputs[name][:rows, :width], made.gradients[name][:rows, :width]  # on overflow, others have NaN
        keep = batch.mask.bool().to(x.device) & (x != 0).any(dim=-1) & (g != 0).any(dim=-1)
        # If the model is on several devices, factors move to the device of its input.
        found[name] = GradientFactors(x[keep].to(device), g[keep].to(device), keep.nonzero()[:, 0].to(device))
    return found, made.losses, made.logits


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
