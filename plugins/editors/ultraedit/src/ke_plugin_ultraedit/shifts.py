"""The update of one linear map in closed form (UltraEdit section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from attrs import frozen
from torch import Tensor

from ke_plugin_ultraedit.normalizer import RunningStatistics
from ke_weights.plugin import Delta, RidgeShift, double


@frozen(kw_only=True, eq=False)
class Features:
    """Inputs H ``h`` [T, in] of one linear map, and gradients ``g`` [T, out] of its outputs, at T answer tokens."""

    h: Tensor
    g: Tensor

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Return the features of several mini-batches."""
        return cls(h=torch.cat([part.h for part in parts]), g=torch.cat([part.g for part in parts]))

    @property
    def joined(self) -> Tensor:
        """[h; g], float64 [T, in + out]."""
        return double(torch.cat([self.h, self.g], dim=1))

    @property
    def shape(self) -> str:
        """The shape of the linear map, such as 576x1536."""
        return f"{self.h.shape[1]}x{self.g.shape[1]}"


def values(features: Features, statistics: RunningStatistics, eta: float) -> Tensor:
    """Return the wanted changes of the outputs, V [T, out]: v = -eta |h^|^2 g^, with normalized h^ and g^."""
    normalized, size = statistics.normalized(features.joined), features.h.shape[1]
    length = (normalized[:, :size] ** 2).sum(1, keepdim=True)
    return -eta * length * normalized[:, size:]


def shift(features: Features, v: Tensor) -> Delta:
    """Return S^T [out, in], where S minimizes |H S - V|^2 + |S|^2."""
    return RidgeShift.of(features.h, v, 1.0).delta()
