"""The null space of the preserved knowledge, and the update that stays in it (AlphaEdit sections 3.1 and 3.2).

C = E[k k^T] has eigenvectors of large eigenvalue, along which common keys lie, and of small ones. With U0 the latter
and P = U0 U0^T, an update of the form Delta P leaves what lies along the former alone (equation 8): common keys'
values, as far as the latter carry next to nothing of tr(C). The update of equation 14,

    Delta = R K^T P (Kp Kp^T P + K K^T P + L2 I)^-1,

with Kp the keys of earlier edits, is solved in U0's coordinates, where the system is symmetric and of size r. With
A = U0^T K, B = U0^T Kp and G = [A B]:

    Delta = R A^T (G G^T + L2 I)^-1 U0^T,        (G G^T + L2 I)^-1 G = G (G^T G + L2 I)^-1

of which the right form is the smaller system while there are fewer edits than dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_weights.plugin import KeyCovariance, LowRank, cholesky, double


@frozen(kw_only=True, eq=False)
class NullSpace:
    """``basis`` U0, float64 [f, r]: orthonormal eigenvectors of C with eigenvalues below ``threshold``.

    It is kept in the processor's memory, as C is. ``l2`` is the ridge, ``kept`` the share of tr(C) that they carry.
    """

    basis: Tensor
    threshold: float
    l2: float
    kept: float

    def update(self, keys: Tensor, residual: Tensor, earlier: Sequence[Tensor]) -> LowRank:
        """Delta [d, f] for ``keys`` K [f, N] and ``residual`` R [d, N]; ``earlier``: keys of edits to keep, [f, M]."""
        count = keys.shape[1]
        every = double(torch.cat([keys, *earlier], dim=1))
        basis = self.basis.to(every.device)
        inside = basis.T @ every  # G
        if inside.shape[1] < inside.shape[0]:
            system = inside.T @ inside
            solved = inside @ torch.cholesky_solve(like_eye(system)[:, :count], self._factor(system))
        else:
            solved = torch.cholesky_solve(inside[:, :count], self._factor(inside @ inside.T))
        return LowRank(left=double(residual), right=(basis @ solved).T)

    def _factor(self, system: Tensor) -> Tensor:
        return cholesky(system + self.l2 * like_eye(system), "the edits' system")


def like_eye(system: Tensor) -> Tensor:
    """The identity of the size, type and device of a square matrix."""
    return torch.eye(len(system), dtype=system.dtype, device=system.device)


def null_space(covariance: KeyCovariance, layer: int, threshold: float | None, l2: float | None) -> NullSpace:
    """The null space of C. Raises EditFailed where no direction lies below the threshold.

    Without a threshold, the mean eigenvalue tr(C) / f: what common keys use less than an average direction may be
    written to. (The share of tr(C) below it tells how much of a null space that is; in a model whose spectrum is
    flat there is hardly any, and a rule by share, such as 1 %, would leave fewer directions than there are edits.)
    """
    values, vectors = torch.linalg.eigh(covariance.double())  # ascending
    values = values.clamp(min=0)
    total = values.sum()
    threshold = float(values.mean()) if threshold is None else threshold
    count = int((values < threshold).sum())
    if count == 0:
        raise EditFailed(
            f"no direction of layer {layer} lies below the null space threshold {threshold:.3g}: its smallest "
            f"eigenvalue is {float(values[0]):.3g}",
            hint="raise nullspace_threshold, or leave it to be derived",
        )
    small = values[:count].sum()
    return NullSpace(
        basis=vectors[:, :count].cpu(),
        threshold=threshold,
        l2=float(small) if l2 is None else l2,
        kept=float(small / total),
    )
