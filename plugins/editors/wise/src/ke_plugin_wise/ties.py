"""TIES merging of task vectors (Yadav et al. 2023), with which WISE merges side memories (section 2.3.2, equation 10).

1. trim     keep the largest entries of each D_i by magnitude
2. elect    the sign of sum_i w_i D_i, entry by entry
3. merge    the weighted mean of the entries that have this sign
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def ties(differences: Sequence[Tensor], weights: Sequence[float], density: float) -> Tensor:
    """Return the merged difference of ``differences``, each [out, in], as float32 or better.

    ``density``: fraction of entries to keep of each. An entry that only one of them uses is not scaled.
    """
    precise = [one.to(torch.promote_types(one.dtype, torch.float32)) for one in differences]
    trimmed = [trim(one, density) for one in precise]
    elected = torch.zeros_like(trimmed[0])
    for one, weight in zip(trimmed, weights, strict=True):
        elected.add_(one, alpha=weight)
    elected = torch.where(elected >= 0, 1.0, -1.0)
    total, count = torch.zeros_like(trimmed[0]), torch.zeros_like(trimmed[0])
    for one, weight in zip(trimmed, weights, strict=True):
        agrees = one.sign() == elected
        total.add_(torch.where(agrees, one, 0), alpha=weight)
        count.add_(agrees, alpha=weight)
    return total / torch.where(count == 0, 1, count)


def trim(difference: Tensor, density: float) -> Tensor:
    """Return ``difference`` with its smallest entries by magnitude set to zero; equal ones are kept together."""
    keep = int(density * difference.numel())
    if keep >= difference.numel():
        return difference
    sizes = difference.abs().flatten()
    least = sizes.kthvalue(max(difference.numel() - keep, 0) + 1).values if keep else sizes.new_tensor(torch.inf)
    return torch.where(difference.abs() >= least, difference, 0)
