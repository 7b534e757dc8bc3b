"""MALMEN's network and the wanted changes of a matrix's outputs (section 3.1).

    y   = y + s * max(0, U V y + b) + t            in each layer
    d_t = -eta <u_t, u~_t> g~_t                    for the input u_t and the output gradient g_t of token t

with a learned step size eta and a learned ridge c = e^lambda per matrix. RLEdit only has other sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ke_weights.hypernetwork import (
    GradientFactors,
    Hypernetwork,
    LowRankResidual,
    NetworkShape,
    ignores_constant,
    placed,
    shapes_of,
)

OF_MATRICES = ("steps", "ridges")
"""Parameters with one element per matrix."""


class MalmenLayer(LowRankResidual):
    """y + s * max(0, U V y + b) + t, with s and t [matrices, n]. The clamp trains from zero, as in MEND's layer."""

    def forward(self, y: Tensor, matrix: int) -> Tensor:
        """``y`` [M, n] of one matrix."""
        inner = (y @ self.v.T @ self.u.T + self.b).clamp(min=0)
        return y + self.scale[matrix] * inner + self.shift[matrix]


class MalmenNetwork(Hypernetwork):
    """All networks, with eta and lambda of every matrix. ``shapes``: (in, out) by layer name.

    ``positive``: eta = log(1 + e^steps), which cannot change its sign; otherwise eta = steps, as published.
    """

    layer = MalmenLayer

    def __init__(
        self,
        shapes: Mapping[str, NetworkShape],
        *,
        rank: int,
        layers: int,
        step: float,
        positive: bool,
        seed: int = 0,
        scaled: bool = True,
        ignore_constant: bool = True,
    ) -> None:
        super().__init__(shapes, rank=rank, layers=layers, seed=seed, scaled=scaled, ignore_constant=ignore_constant)
        self.positive = positive
        self.steps = nn.Parameter(torch.full((len(shapes),), math.log(math.expm1(step)) if positive else step))
        self.ridges = nn.Parameter(torch.zeros(len(shapes)))

    def etas(self) -> Tensor:
        """Return the step size of every matrix."""
        return softplus(self.steps) if self.positive else self.steps

    def ridge(self, name: str) -> Tensor:
        """Return lambda of one matrix, whose ridge is e^lambda."""
        return self.ridges[self.place(name)]

    def changes(self, name: str, found: GradientFactors) -> Tensor:
        """Return D [M, out], the wanted changes of the outputs of one matrix."""
        u, g = self.pseudo_factors(name, found)
        change: Tensor = -self.etas()[self.place(name)] * (found.x * u).sum(dim=1, keepdim=True) * g
        return change


def new_network(module: nn.Module, recipe: Mapping[str, Any], editor: str, *, seed: int = 0) -> MalmenNetwork:
    """Return the untrained network for the layers of ``recipe``."""
    shapes = shapes_of(module, recipe["maps"], editor)
    return placed(
        module,
        lambda: MalmenNetwork(
            shapes,
            rank=recipe["rank"],
            layers=recipe["layers"],
            step=recipe["step_init"],
            positive=recipe["positive_step"],
            seed=seed,
            scaled=recipe["scaled_v"],
            ignore_constant=ignores_constant(recipe),
        ),
    )
