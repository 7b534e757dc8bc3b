"""MEMIT's algorithm (Meng et al. 2023, algorithm 1).

for each edit:              z_i = argmin of the loss of equation 16, on the unedited model
for l in layers, ascending:
    k_i = key at l          (average over left contexts, on the model with the layers below l edited)
    r_i = (z_i - h_i) / (number of layers from l to the last)      (h_i: state at the last of the layers, now)
    W_l += R K^T (lambda C_l + K K^T)^-1                           (equation 14)
"""

from __future__ import annotations

from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_memit import MemitConfig, derive
from ke_weights.plugin import (
    EditInProgress,
    LocateContextCache,
    LocateEditor,
    LowRank,
    ridge_update,
    spread_over_layers,
)


class Memit(LocateEditor):
    """Editor that writes a batch of edits into several layers at once."""

    normal_matrix = True

    def __init__(self, config: MemitConfig) -> None:
        super().__init__(LocateContextCache.multi_layer(config, derive))

    def write(self, work: EditInProgress) -> Details:
        """Apply algorithm 1."""
        context = work.context
        layers, weight = context["layers"], context["mom2_weight"]
        targets = work.edit_targets(layers[-1], "block")

        def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
            return ridge_update(work.covariance(layer, weight), keys, residual, weight, work.earlier_keys(layer))

        norms, left = spread_over_layers(work.weights, context.modules, targets, layers, solve)
        return context.details(norms, targets.report(left))
