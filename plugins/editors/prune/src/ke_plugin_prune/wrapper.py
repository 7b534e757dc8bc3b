"""PRUNE (Ma et al. 2024, section 4).

::

    D   = W_T - W_0 = U diag(s) V^T       the sum of all updates
    s'  = log_a(s) - log_a(m) + m         where s > m, with m = sigma_max(W_0), but at most s
    W   = W_0 + U diag(s') V^T

The paper restrains once, after the last edit. Here every batch may be the last one. The correction of the earlier
batches is taken back before a batch is solved, and a new one follows its updates. So the weights after each batch are
those of a run that ends there, and updates are solved on unrestrained weights. Released code adds the restrained sum to
the edited weights, which counts updates twice.
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
from ke_weights.plugin import Dense, EditInProgress, EditState, UpdateWrapper


@frozen(kw_only=True, eq=False)
class Original:
    """``W_0`` [d, f] of a layer, float64 on the CPU, and ``m``, to which singular values are compressed."""

    weight: Tensor
    bound: float


class Prune(UpdateWrapper):
    """Wrapper that compresses the largest singular values of the accumulated update of each layer."""

    low_rank: ClassVar[bool] = False

    def __init__(self, config: PruneConfig) -> None:
        self.base, self.bound = config.base, config.bound
        self.originals: EditState[Mapping[int, Original]] = EditState()
        self.corrections: EditState[Mapping[int, Tensor]] = EditState()

    def before(self, work: EditInProgress) -> None:
        """Copy the original weights before the first edit. Later, take back the correction of the batch before."""
        known = self.originals.of(work)
        if not known:
            self.originals.keep(work, {layer: self._original(work.matrix(layer)) for layer in work.context.layers})
        for corrections in self.corrections.of(work)[-1:]:
            for layer, correction in corrections.items():
                add(work, layer, -correction)

    def after(self, work: EditInProgress) -> Details:
        """Add the correction of all updates so far."""
        bounds: dict[str, float] = {}
        largest: dict[str, float] = {}
        corrections: dict[int, Tensor] = {}
        for layer, original in self.originals.of(work)[0].items():
            weight = work.matrix(layer)
            total = weight - original.weight.to(weight.device)
            bound = bounds[str(layer)] = original.bound
            largest[str(layer)] = spectral_norm(total)
            if compressed(largest[str(layer)], bound, self.base) < largest[str(layer)]:
                corrections[layer] = restrained(total, bound, self.base) - total
                add(work, layer, corrections[layer])
        self.corrections.keep(work, corrections)
        return {"bounds": bounds, "largest_singular_values": largest, "restrained_layers": list(corrections)}

    def _original(self, weight: Tensor) -> Original:
        return Original(weight=weight.cpu().clone(), bound=self.bound or spectral_norm(weight))


def spectral_norm(matrix: Tensor) -> float:
    """Return the largest singular value."""
    return float(torch.linalg.matrix_norm(matrix, 2))


def restrained(total: Tensor, bound: float, base: float) -> Tensor:
    """Return ``total`` [d, f] with its singular values above ``bound`` compressed."""
    left, values, right = torch.linalg.svd(total, full_matrices=False)
    kept = values.new_tensor([compressed(value, bound, base) for value in values.tolist()])
    found: Tensor = left * kept @ right
    return found


def compressed(value: float, bound: float, base: float) -> float:
    """Return the compressed singular value, or ``value`` if it is at most ``bound`` or would grow."""
    return min(value, math.log(value / bound, base) + bound) if value > bound else value


def add(work: EditInProgress, layer: int, change: Tensor) -> None:
    """Add ``change`` [d, f] to the weight of ``layer``."""
    work.weights.add(work.context.modules.layers[layer].weight_name, Dense(delta=change))
