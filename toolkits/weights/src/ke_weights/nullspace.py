"""The null space of the preserved knowledge, and the update inside it (AlphaEdit sections 3.1 and 3.2).

C = E[k k^T] has eigenvectors with large eigenvalues, the directions of common keys, and with small ones. With U0 the
latter and P = U0 U0^T, an update Delta P does not change the outputs for the former (equation 8). It preserves common
keys as far as the latter carry almost none of tr(C). The update of equation 14,

    Delta = R K^T P (Kp Kp^T P + K K^T P + L2 I)^-1,

with Kp the keys of earlier edits, is solved in the coordinates of U0, where the system is symmetric and of size r. With
A = U0^T K, B = U0^T Kp and G = [A B]:

    Delta = R A^T (G G^T + L2 I)^-1 U0^T,        (G G^T + L2 I)^-1 G = G (G^T G + L2 I)^-1

The right form is the smaller system if there are fewer edits than dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import LowRank
from ke_weights.covariance import KeyCovariance
from ke_weights.solve import cholesky


@frozen(kw_only=True, eq=False)
class NullSpace:
    """``basis`` U0, float64 [f, r]: orthonormal eigenvectors of C with eigenvalues below ``threshold``.

    It is stored in CPU memory, as C is. ``l2`` is the ridge, ``fraction`` the fraction of tr(C) that they carry, where
    tr(C) leaves out attention sinks.
    """

    basis: Tensor
    threshold: float
    l2: float
    fraction: float

    def update(self, keys: Tensor, residual: Tensor, earlier: Sequence[Tensor]) -> LowRank:
        """Return Delta [d, f] for ``keys`` K [f, N], ``residual`` R [d, N] and ``earlier`` keys to preserve, [f, M]."""
        count = keys.shape[1]
        every = double(torch.cat([keys, *earlier], dim=1))
        basis = self.basis.to(every.device)
        inside = basis.T @ every  # G
        if inside.shape[1] < inside.shape[0]:
            system = inside.T @ inside
            solved = inside @ torch.cholesky_solve(identity_like(system)[:, :count], self._factor(system))
        else:
            solved = torch.cholesky_solve(inside[:, :count], self._factor(inside @ inside.T))
        return LowRank(left=double(residual), right=(basis @ solved).T)

    def _factor(self, system: Tensor) -> Tensor:
        return cholesky(system + self.l2 * identity_like(system), "the edits' system", "raise the option l2")


def identity_like(system: Tensor) -> Tensor:
    """Return the identity with the size, dtype and device of a square matrix."""
    return torch.eye(len(system), dtype=system.dtype, device=system.device)


def null_space(covariance: KeyCovariance, layer: int, threshold: float | None, l2: float | None) -> NullSpace:
    """Return the null space of C. Raises EditFailed if no eigenvalue is below the threshold.

    The default threshold is the mean eigenvalue tr(C) / f, without attention sinks: in some layers, the keys of first
    tokens are in one direction, and their squares up to 1e5 times as large as those of others. (The fraction of tr(C)
    below it tells how close to a null space the result is. In a model with a flat spectrum it is large, and a threshold
    by fraction, such as 1%, would leave fewer directions than there are edits.)
    """
    values, vectors = torch.linalg.eigh(covariance.double())  # ascending
    values = values.clamp(min=0)
    usual = _without_sinks(values)
    threshold = float(usual.sum() / len(values)) if threshold is None else threshold
    count = int((values < threshold).sum())
    if count == 0:
        raise EditFailed(
            f"no eigenvalue of layer {layer} is below the null space threshold {threshold:.3g}: the smallest one is "
            f"{float(values[0]):.3g}",
            hint="raise the option nullspace_threshold, or remove it to use the derived value",
        )
    small = values[:count].sum()
    return NullSpace(
        basis=vectors[:, :count].cpu(),
        threshold=threshold,
        l2=float(small) if l2 is None else l2,
        fraction=float((small / usual.sum()).clamp(max=1)),
    )


def _without_sinks(values: Tensor) -> Tensor:
    """Return ascending eigenvalues without the last one if it is larger than all others together."""
    return values[:-1] if values[-1] > values[:-1].sum() else values
