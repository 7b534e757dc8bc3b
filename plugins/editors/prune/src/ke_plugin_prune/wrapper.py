"""PRUNE (Ma et al. 2024, section 4).

::

    D   = W_T - W_0 = U diag(s) V^T       the sum of all updates
    s'  = log_a(s) - log_a(m) + m         where s > m, with m = sigma_max(W_0), but at most s
    W   = W_0 + U diag(s') V^T

The paper restrains once, after the last edit. Here every batch may be the last one. The correction of the earlier
batches is subtracted before a batch is solved, and a new one follows its updates. So the weights after each batch are
those of a run that ends there, and updates are solved on unrestrained weights, both up to the rounding of the weights:
in half precision, each correction that is added and subtracted again can leave a rounding error.
Released code adds the restrained sum to the edited weights, which counts updates twice.

Singular values and U come from the Gram matrix D D^T [d, d] in float64. Only the compressed part changes:

    correction = U_k diag(s'_k / s_k - 1) U_k^T D
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_prune import PruneConfig
from ke_weights.plugin import EditInProgress, EditState, LowRank, UpdateWrapper


@frozen(kw_only=True, eq=False)
class Original:
    """``W_0`` [d, f] of a layer, in its own dtype on the CPU, and ``m``, to which singular values are compressed."""

    weight: Tensor
    bound: float


class Prune(UpdateWrapper):
    """Wrapper that compresses the largest singular values of the accumulated update of each layer.

    Corrections are kept for every active batch, because a batch may be reverted. They are low-rank factors on the CPU.
    """

    low_rank: ClassVar[bool] = False

    def __init__(self, config: PruneConfig) -> None:
        self.base, self.bound = config.base, config.bound
        self.originals: EditState[Mapping[int, Original]] = EditState()
        self.corrections: EditState[Mapping[int, LowRank]] = EditState()
        self._latest: dict[int, Original] = {}

    def before(self, work: EditInProgress) -> None:
        """Copy the original weights before the first edit. Later, subtract the correction of the batch before."""
        if not self.originals.of(work):
            self._latest = {layer: self._original(work, layer) for layer in work.context.layers}
            self.originals.keep(work, self._latest)
        for corrections in self.corrections.of(work)[-1:]:
            for layer, correction in corrections.items():
                add(work, layer, LowRank(left=-correction.left, right=correction.right))

    def after(self, work: EditInProgress) -> Details:
        """Add the correction of all updates so far."""
        bounds: dict[str, float] = {}
        largest: dict[str, float] = {}
        corrections: dict[int, LowRank] = {}
        for layer, original in self.originals.of(work)[0].items():
            weight = work.matrix(layer)
            total = weight - original.weight.to(weight)
            bound = bounds[str(layer)] = original.bound
            largest[str(layer)] = spectral_norm(total)
            if compressed(largest[str(layer)], bound, self.base) < largest[str(layer)]:
                corrections[layer] = stored(correction(total, bound, self.base), original.weight.dtype)
                add(work, layer, corrections[layer])
        self.corrections.keep(work, corrections)
        return {"bounds": bounds, "largest_singular_values": largest, "restrained_layers": list(corrections)}

    def _original(self, work: EditInProgress, layer: int) -> Original:
        """Return the weight and its bound. The norm of the weight that was used last is not computed again."""
        weight = work.context.modules.layers[layer].matrix.detach().to("cpu", copy=True)
        latest = self._latest.get(layer)
        if latest is not None and latest.weight.dtype == weight.dtype and torch.equal(latest.weight, weight):
            return latest
        return Original(weight=weight, bound=self.bound or spectral_norm(work.matrix(layer)))


def spectral_norm(matrix: Tensor) -> float:
    """Return the largest singular value of a float64 matrix."""
    return math.sqrt(max(float(torch.linalg.eigvalsh(gram(matrix))[-1]), 0.0))


def gram(matrix: Tensor) -> Tensor:
    """Return the smaller of the two Gram matrices of ``matrix``."""
    return matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix


def correction(total: Tensor, bound: float, base: float) -> LowRank:
    """Return what compresses the singular values of ``total`` [d, f] above ``bound`` when it is added to it."""
    squares, left = torch.linalg.eigh(total @ total.T)
    pairs = [(value, compressed(value, bound, base)) for value in squares.clamp(min=0).sqrt().tolist()]
    places = [at for at, (value, kept) in enumerate(pairs) if kept < value]
    factors = left.new_tensor([pairs[at][1] / pairs[at][0] - 1 for at in places])
    return LowRank(left=left[:, places] * factors, right=left[:, places].T @ total)


def stored(update: LowRank, dtype: torch.dtype) -> LowRank:
    """Return ``update`` on the CPU, in the precision in which it is added to weights of ``dtype``."""
    precise = torch.promote_types(dtype, torch.float32)
    return LowRank(left=update.left.to("cpu", precise), right=update.right.to("cpu", precise))


def compressed(value: float, bound: float, base: float) -> float:
    """Return the compressed singular value, or ``value`` if it is at most ``bound`` or would grow."""
    return min(value, math.log(value / bound, base) + bound) if value > bound else value


def add(work: EditInProgress, layer: int, change: LowRank) -> None:
    """Add ``change`` [d, f] to the weight of ``layer``."""
    work.weights.add(work.context.modules.layers[layer].weight_name, change)
