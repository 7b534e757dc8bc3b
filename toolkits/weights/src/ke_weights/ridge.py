"""A shift of a linear map by ridge regression, with its gradients (MALMEN section 3.2; UltraEdit section 3).

For inputs U [T, in] and wanted changes of the outputs D [T, out], with the ridge c > 0:

    S = argmin |U S - D|^2 + c |S|^2 = (U^T U + c I)^-1 U^T D                     [in, out]
    M = (U^T U + c I)^-1 dL/dS,    dL/dD = U M,    dL/d(log c) = -c <M, S>

With fewer tokens than inputs, S = U^T Z with Z = (U U^T + c I)^-1 D, and dL/dD = (U U^T + c I)^-1 U dL/dS: equal, and
cheaper.
"""

from __future__ import annotations

from typing import Self

import torch
from attrs import frozen
from torch import Tensor

from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import Delta, Dense, LowRank
from ke_weights.solve import cholesky

FEWER_EDITS = "apply fewer edits at once"


@frozen(kw_only=True, eq=False)
class RidgeShift:
    """A solution S: ``u`` U, ``factor`` of the smaller system, and ``solved``, Z [T, out] if ``dual``, else S."""

    u: Tensor
    factor: Tensor
    solved: Tensor
    ridge: float
    dual: bool

    @classmethod
    def of(cls, u: Tensor, d: Tensor, ridge: float) -> Self:
        """Solve for S in float64. Raises EditFailed for NaN, or a system that is singular up to rounding."""
        u = double(u)
        d = double(d).to(u.device)
        dual = len(u) < u.shape[1]
        square = u @ u.T if dual else u.T @ u
        square = square + ridge * torch.eye(len(square), dtype=u.dtype, device=u.device)
        factor = cholesky(square, "the ridge regression", FEWER_EDITS)
        solved = torch.cholesky_solve(d if dual else u.T @ d, factor)
        return cls(u=u, factor=factor, solved=solved, ridge=ridge, dual=dual)

    def shift(self) -> Tensor:
        """Return S, float64 [in, out]."""
        return self.u.T @ self.solved if self.dual else self.solved

    def delta(self) -> Delta:
        """Return S^T [out, in] as an update of the weight, in factors if that is smaller."""
        if self.dual:
            return LowRank(left=self.solved.T, right=self.u)
        return Dense(delta=self.solved.T)

    def gradients(self, of_shift: Tensor) -> tuple[Tensor, float]:
        """Return dL/dD [T, out] and dL/d(log c), given dL/dS [in, out]."""
        of_shift = double(of_shift).to(self.u.device)
        if self.dual:
            of_d = torch.cholesky_solve(self.u @ of_shift, self.factor)
            return of_d, -self.ridge * float((of_d * self.solved).sum())  # <M, S> = <U M, Z>
        m = torch.cholesky_solve(of_shift, self.factor)
        return self.u @ m, -self.ridge * float((m * self.solved).sum())
