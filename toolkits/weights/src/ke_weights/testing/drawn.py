"""Second moments, keys and residuals drawn from a seed: what closed forms are tried on."""

from __future__ import annotations

import torch
from torch import Tensor

from ke_weights.covariance import KeyCovariance

F, D = 48, 20
"""Sizes of a key and of a residual."""


def random_covariance() -> KeyCovariance:
    """Of 600 tokens, float64 [F, F]."""
    data = torch.randn(600, F, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return KeyCovariance(data.T @ data / 600, 600)


def random_problem(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Keys and residuals of ``count`` edits as columns, float64 [F, count] and [D, count]."""
    draw = torch.Generator().manual_seed(100 * seed + count)
    keys = torch.randn(F, count, dtype=torch.float64, generator=draw)
    return keys, torch.randn(D, count, dtype=torch.float64, generator=draw)
