"""The update of one layer, in float64 (MEMIT equation 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import LowRank

if TYPE_CHECKING:
    from ke_weights.covariance import KeyCovariance

SINGULAR = 1e-12  # unexplained fraction of a row; rounding of float32 keys gives 1e-13
MORE_TOKENS = "use a key covariance of more tokens of more varied text"
HEAVIER = f"{MORE_TOKENS}, or raise the option mom2_weight"
FEW = 4  # with fewer edits than a quarter of the key dimension, the small system is cheaper


def ridge_update(
    covariance: KeyCovariance, keys: Tensor, residual: Tensor, weight: float, earlier: Sequence[Tensor] = ()
) -> LowRank:
    """Return Delta = R K^T (weight C + Kp Kp^T + K K^T)^-1, [d, f], of rank N at most; float64.

    It minimizes |Delta K - R|^2 + |Delta Kp|^2 + weight tr(Delta C Delta^T): meet the edits, change other outputs
    little.

    ``keys`` K [f, N], ``residual`` R [d, N], ``earlier`` the parts of Kp [f, M]. For few keys G = [K Kp] it uses the
    push-through identity with Y = C^-1 G: Delta = [R 0] (weight I + G^T Y)^-1 Y^T, which only needs the factor of C,
    computed once for all batches. Raises EditFailed for a singular system.
    """
    residual, count = double(residual), keys.shape[1]
    keys = double(torch.cat([keys, *earlier], dim=1))
    size, every = keys.shape
    if every * FEW < size:
        inverse_keys = torch.cholesky_solve(keys, covariance.factor)
        small = keys.T @ inverse_keys
        small = (small + small.T) / 2 + weight * torch.eye(every, dtype=keys.dtype, device=keys.device)
        solved = torch.cholesky_solve(inverse_keys.T, cholesky(small, "the edits' system", HEAVIER))
        return LowRank(left=residual, right=solved[:count])
    whole = weight * covariance.double() + keys @ keys.T
    factor = cholesky(whole, "the edits' system", HEAVIER)
    return LowRank(left=residual, right=torch.cholesky_solve(keys[:, :count], factor).T)


def covariance_weighted(covariance: KeyCovariance | None, key: Tensor) -> Tensor:
    """Return C^-1 k, float64 [f]; k itself without C.

    A rank-one update along it moves k and changes the outputs for other keys least (ROME equation 2).
    """
    key = double(key)
    return key if covariance is None else torch.cholesky_solve(key[:, None], covariance.factor)[:, 0]


def cholesky(matrix: Tensor, what: str, hint: str) -> Tensor:
    """Return the lower Cholesky factor, float64. Raises EditFailed for NaN, or if ``matrix`` is not positive definite.

    ``what`` names the matrix in the error; ``hint``: what to do if it is singular.

    Rounding can make a singular matrix look definite. The square of a pivot over the matrix's diagonal is the fraction
    of that row that the previous rows do not explain, at any scale.
    """
    if not bool(torch.isfinite(matrix).all()):
        raise EditFailed(f"{what} contains NaN or infinity", hint="load the model with --dtype float32")
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrix)
    unexplained = factor.diagonal() ** 2 / matrix.diagonal()
    if int(failed) or not bool((unexplained > SINGULAR).all()):  # a negative pivot gives NaN
        raise EditFailed(f"{what} is singular", hint=hint)
    return factor
