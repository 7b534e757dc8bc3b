"""MEND's network: the sum of the outer products of its pseudo-factors is the update (section 3).

W_i becomes W_i + lr_i sum_t g~_t x~_t^T, with a learned step size lr_i per matrix
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ke_weights.hypernetwork import GradientFactors, Hypernetwork, NetworkShape, ignores_constant, placed, shapes_of

LAYERS = 2


class MendNetwork(Hypernetwork):
    """All networks, and the learned step size lr_i of every matrix. ``shapes``: (in, out) by layer name."""

    def __init__(
        self,
        shapes: Mapping[str, NetworkShape],
        *,
        rank: int,
        step: float,
        seed: int = 0,
        scaled: bool = True,
        ignore_constant: bool = True,
    ) -> None:
        super().__init__(shapes, rank=rank, layers=LAYERS, seed=seed, scaled=scaled, ignore_constant=ignore_constant)
        self.steps = nn.Parameter(torch.full((len(shapes),), step))

    def transform(self, name: str, found: GradientFactors) -> tuple[Tensor, Tensor]:
        """Return x~ [M, in] and lr_i g~ [M, out] of one matrix; the sum of their outer products is its update."""
        x, g = self.pseudo_factors(name, found)
        return x, self.steps[self.place(name)] * g


def new_network(module: nn.Module, recipe: Mapping[str, Any], *, seed: int = 0) -> MendNetwork:
    """Return the untrained network for the layers of ``recipe``."""
    shapes = shapes_of(module, recipe["maps"], "mend")
    return placed(
        module,
        lambda: MendNetwork(
            shapes,
            rank=recipe["rank"],
            step=recipe["step_init"],
            seed=seed,
            scaled=recipe["scaled_v"],
            ignore_constant=ignores_constant(recipe),
        ),
    )
