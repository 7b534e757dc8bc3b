"""REVIVE (Zhang et al. 2026).

::

    W_0 = U diag(s) V^T                   the weight before the first edit
    k   = the smallest rank whose sum of s^2 reaches tau |W_0|^2
    dW' = (I - U_k U_k^T) dW (I - V_k V_k^T)

Then (W + dW') V_k = W V_k and U_k^T (W + dW') = U_k^T W: the k leading singular triplets of W_0 stay singular triplets.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_revive import ReviveConfig
from ke_weights.plugin import Delta, Dense, EditInProgress, EditState, LowRank, UpdateWrapper, double


@frozen(kw_only=True, eq=False)
class Subspace:
    """The protected directions of a layer: ``left`` U_k [d, k] and ``right`` V_k^T [k, f], float64, in CPU memory."""

    left: Tensor
    right: Tensor

    def outside(self, update: Delta) -> Delta:
        """Return the part of ``update`` outside of the subspace; a low-rank update keeps its rank."""
        if isinstance(update, Dense):
            return Dense(delta=self._right(self._left(double(update.delta))))
        return LowRank(left=self._left(double(update.left)), right=self._right(double(update.right)))

    def _left(self, columns: Tensor) -> Tensor:
        basis = self.left.to(columns.device)
        return columns - basis @ (basis.T @ columns)

    def _right(self, rows: Tensor) -> Tensor:
        basis = self.right.to(rows.device)
        return rows - (rows @ basis.T) @ basis


class Revive(UpdateWrapper):
    """Wrapper that removes what an update would change in the dominant singular subspace."""

    def __init__(self, config: ReviveConfig) -> None:
        self.energy = config.energy
        self.spaces: EditState[Mapping[int, Subspace]] = EditState()
        self._latest: dict[int, tuple[Tensor, Subspace]] = {}

    def before(self, work: EditInProgress) -> None:
        """Find the subspaces of the original weights, before the first edit."""
        if self.energy:
            known = self.spaces.of(work)
            found = known[-1] if known else {layer: self._space(work, layer) for layer in work.context.layers}
            self.spaces.keep(work, found)

    def _space(self, work: EditInProgress, layer: int) -> Subspace:
        """Return the subspace of a layer. That of the weight that was used last is not computed again."""
        weight = work.context.modules.layers[layer].matrix.detach().to("cpu", copy=True)
        if layer in self._latest:
            known, space = self._latest[layer]
            if known.dtype == weight.dtype and torch.equal(known, weight):
                return space
        found = dominant(work.matrix(layer), self.energy)
        self._latest[layer] = weight, found
        return found

    def filter(self, work: EditInProgress, layer: int, update: Delta) -> Delta:
        """Return the part of the update outside of the subspace."""
        return self.spaces.of(work)[-1][layer].outside(update) if self.energy else update

    def after(self, work: EditInProgress) -> Details:
        """Report the rank of each protected subspace."""
        known = self.spaces.of(work)[-1] if self.energy else {}
        return {"protected_ranks": {str(layer): space.left.shape[1] for layer, space in known.items()}}


def dominant(weight: Tensor, energy: float) -> Subspace:
    """Return the subspace of the leading singular directions that carry ``energy`` of the sum of squares."""
    left, values, right = torch.linalg.svd(weight, full_matrices=False)
    carried = (values**2).cumsum(0) / (values**2).sum()
    rank = int((carried < energy).sum()) + 1
    return Subspace(left=left[:, :rank].cpu(), right=right[:rank].cpu())
