"""EMMET's algorithm (Gupta et al. 2024, section 3.2): batched ROME.

ROME and MEMIT minimize the same change of the outputs for other keys, tr(Delta C Delta^T). MEMIT adds the error of the
edits to it. ROME constrains the edit to be exact. EMMET constrains a batch:

    min tr(Delta C Delta^T)  such that  Delta K = R:      Delta = R (K^T C^-1 K)^-1 K^T C^-1

Nearly identical keys make K^T C^-1 K singular, so its diagonal is softened (e in the released code), with (w C)^-1 for
C^-1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_emmet import EmmetConfig, derive
from ke_weights.plugin import (
    EditInProgress,
    KeyCovariance,
    LocateContextCache,
    LocateEditor,
    LowRank,
    cholesky,
    double,
    spread_over_layers,
)

CONTEXTS = 5  # sampled left contexts, as in MEMIT


class Emmet(LocateEditor):
    """Editor that writes a batch of edits into one layer."""

    normal_matrix = True

    def __init__(self, config: EmmetConfig) -> None:
        super().__init__(
            LocateContextCache.single_layer(config, derive, contexts=((config.template_length, CONTEXTS),))
        )
        self.softening = config.softening

    def write(self, work: EditInProgress) -> Details:
        """Apply the closed form at one layer."""
        context = work.context
        layer, weight = context["layer"], context["mom2_weight"]
        targets = work.edit_targets(layer, "block")

        def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
            covariance = work.covariance(layer, weight * (self.softening or 1.0))
            return constrained_update(covariance, keys, residual, weight, self.softening, work.earlier_keys(layer))

        norms, left = spread_over_layers(work.weights, context.modules, targets, (layer,), solve)
        return context.details(norms, targets.report(left))


def constrained_update(
    covariance: KeyCovariance,
    keys: Tensor,
    residual: Tensor,
    weight: float,
    softening: float,
    earlier: Sequence[Tensor] = (),
) -> LowRank:
    """Return Delta = R (K^T Y + e I)^-1 Y^T with Y = (w C)^-1 K; float64, of rank N.

    ``keys`` K [f, N], ``residual`` R [d, N]. With e = 0, Delta K = R. ``earlier`` keys join K with residuals of 0.
    Raises EditFailed for a singular system: two edits with equal keys, or more edits than key dimensions, cannot all be
    exact.
    """
    residual, count = double(residual), keys.shape[1]
    keys = double(torch.cat([keys, *earlier], dim=1))
    inverse_keys = torch.cholesky_solve(keys, covariance.factor) / weight
    system = keys.T @ inverse_keys
    system = (system + system.T) / 2 + softening * torch.eye(len(system), dtype=keys.dtype, device=keys.device)
    factor = cholesky(
        system, "the system of the edits' keys", "raise the option softening, or apply fewer edits at once"
    )
    return LowRank(left=residual, right=torch.cholesky_solve(inverse_keys.T, factor)[:count])
