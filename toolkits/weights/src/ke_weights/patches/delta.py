"""Arithmetic of updates: sums, rank reduction, norms and inner products without the full matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ke_plugin_hf.guard import Delta, Dense, LowRank


def combined(deltas: Sequence[Delta]) -> Delta:
    """Return the sum of the updates of one parameter, on the CPU.

    A single update is unchanged, so applying it again gives the same bits. Factors are concatenated, and reduced if
    their rank exceeds min(out, in). If one update is dense, the sum is dense.
    """
    if all(isinstance(delta, LowRank) for delta in deltas):
        factors = [delta for delta in deltas if isinstance(delta, LowRank)]
        left = torch.cat([one.left.detach().cpu() for one in factors], dim=1)
        right = torch.cat([one.right.detach().cpu() for one in factors], dim=0)
        return (
            LowRank(left=left.contiguous(), right=right.contiguous()) if fits(left, right) else reduce_rank(left, right)
        )
    total = dense_tensor(deltas[0])
    for delta in deltas[1:]:
        total = total + dense_tensor(delta)
    return Dense(delta=total.contiguous())


def fits(left: Tensor, right: Tensor) -> bool:
    """Return whether the factors [out, r] and [r, in] have no more columns than their product can have rank."""
    return left.shape[1] <= min(left.shape[0], right.shape[1])


def reduce_rank(left: Tensor, right: Tensor) -> LowRank:
    """Return factors of the product's numerical rank, without singular values below float32's rounding.

    They come from the Gram matrix of the short side in float64, whose eigenvectors Q give P = Q (Q^T P).
    """
    product = left.double() @ right.double()
    wide = product.shape[0] <= product.shape[1]
    short = product if wide else product.T
    squares, vectors = torch.linalg.eigh(short @ short.T)
    least = squares[-1] * torch.finfo(torch.float32).eps ** 2
    basis = vectors[:, squares > least]
    other = basis.T @ short
    first, second = (basis, other) if wide else (other.T, basis.T)
    return LowRank(left=first.to(left.dtype).contiguous(), right=second.to(left.dtype).contiguous())


def dense_tensor(delta: Delta) -> Tensor:
    """Return the update as one tensor, [out, in] or [out], on the CPU."""
    if isinstance(delta, Dense):
        return delta.delta.detach().cpu()
    return delta.left.detach().cpu() @ delta.right.detach().cpu()


def shape_of(delta: Delta) -> tuple[int, ...]:
    """Return [out, in], or [out]."""
    if isinstance(delta, Dense):
        return tuple(delta.delta.shape)
    return int(delta.left.shape[0]), int(delta.right.shape[1])


def inner(one: Delta, other: Delta) -> float:
    """Return the Frobenius inner product in float64; of two low-rank updates without forming either."""
    if isinstance(one, LowRank) and isinstance(other, LowRank):
        rows = one.left.double().T @ other.left.double()
        columns = one.right.double() @ other.right.double().T
        return float((rows * columns).sum())
    return float((dense_tensor(one).double() * dense_tensor(other).double()).sum())


def norm(delta: Delta) -> float:
    """Return the Frobenius norm."""
    return math.sqrt(max(inner(delta, delta), 0.0))
