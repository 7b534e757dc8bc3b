"""PMET's algorithm (Li et al. 2024, sections 4.1 and 4.2).

::

    for each edit:              d_a, d_m = argmin of the loss for the attention's output + d_a and the MLP's + d_m
                                z_i = v_i + d_m         (v_i: output of the MLP of the last of the layers)
    for l in layers, ascending:
        k_i = key at l          (average over left contexts, on the model with the layers below l edited)
        r_i = (z_i - v_i) / sqrt(number of layers from l to the last)           (v_i now)
        W_l += R K^T (lambda C_l + K K^T)^-1

The attention's offset is optimized so that the MLP's contains only what the attention cannot give, and is then dropped.
While every token of the target is predicted, the likelihood has a tenth of its weight, and the optimization ends when
the KL term is small.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_pmet import PmetConfig, derive
from ke_weights.plugin import (
    EditInProgress,
    LocateContextCache,
    LocateEditor,
    LowRank,
    ridge_update,
    spread_over_layers,
)

SITE: Final = "attention+mlp"
KL_STOP = 0.01
"""The weighted KL term at which a target that is predicted is finished, as published."""


class Pmet(LocateEditor):
    """Editor that writes a batch of edits into several layers at once."""

    normal_matrix = True

    def __init__(self, config: PmetConfig) -> None:
        super().__init__(LocateContextCache.multi_layer(config, derive))

    def write(self, work: EditInProgress) -> Details:
        """Optimize the targets of the last layer, and spread them over all layers."""
        context = work.context
        layers, weight = context["layers"], context["mom2_weight"]
        targets = work.edit_targets(layers[-1], SITE, kl_stop=KL_STOP)

        def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
            return ridge_update(work.covariance(layer, weight), keys, residual, weight, work.earlier_keys(layer))

        norms, left = spread_over_layers(work.weights, context.modules, targets, layers, solve, site=SITE, divisor=sqrt)
        return context.details(norms, targets.report(left))
