"""RECT (Gu et al. 2024, section 5).

::

    r     = |dW| / (|W| + 1e-8)           elementwise; W: the weight before the update
    dW'   = dW where r is among the largest ``keep`` of all entries, else 0

Published code divides by W + 1e-8 with its sign, which is zero for an entry of -1e-8.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ke_plugin_rect import RectConfig
from ke_weights.plugin import Delta, Dense, EditInProgress, UpdateWrapper, dense

EPSILON = 1e-8


class Rect(UpdateWrapper):
    """Wrapper that drops the smaller relative changes of each layer's update."""

    low_rank: ClassVar[bool] = False

    def __init__(self, config: RectConfig) -> None:
        self.keep, self.inside = config.keep, config.when == "inside"

    def filter(self, work: EditInProgress, layer: int, update: Delta) -> Delta:
        """Return the largest relative changes."""
        if self.keep == 1:
            return update
        return Dense(delta=largest_changes(dense(update), work.matrix(layer), self.keep))


def largest_changes(update: Tensor, weight: Tensor, keep: float) -> Tensor:
    """Return ``update`` [d, f] with zeros for all but the largest changes, a fraction ``keep``; fewer with ties."""
    ratio = update.abs() / (weight.abs() + EPSILON)
    dropped = ratio.numel() - round(keep * ratio.numel())
    if not dropped:
        return update
    bound = torch.kthvalue(ratio.flatten(), dropped).values
    return torch.where(ratio > bound, update, torch.zeros_like(update))
