"""The edited layers, and updates in side branches of their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from ke_weights.plugin import ModuleMap, hooked, uninterruptible_context


def targets(modules: ModuleMap, blocks: int) -> tuple[str, ...]:
    """Return the edited layers: every matrix of the MLPs of the last ``blocks`` blocks (MEND appendix)."""
    chosen = modules.layers[-blocks:]
    return tuple(name for layer in chosen for name in (*layer.expansion, layer.projection_name))


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
