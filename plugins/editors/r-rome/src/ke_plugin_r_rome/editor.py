"""R-ROME (Gupta et al. 2024): ROME's update with a single key k.

::

    u      = C^-1 k, normalized
    v*     = ROME's
    W     += (v* - W k - b) u^T / (k . u)

This gives W k + b = v*. The denominator is k^T C^-1 k up to scale, which is always positive, so updates stay bounded.
"""

from __future__ import annotations

from ke_core.plugin import Details
from ke_plugin_r_rome import RRomeConfig
from ke_weights.plugin import (
    EditInProgress,
    RankOneEditor,
    average_keys,
    bare_keys,
    covariance_weighted,
    double,
    project,
)


class RRome(RankOneEditor):
    """Editor that writes one edit into one layer."""

    name = "r-rome"

    def __init__(self, config: RRomeConfig) -> None:
        super().__init__(config)
        self.one_key = config.key

    def write(self, work: EditInProgress) -> Details:
        """Apply ROME's equation 2 with one key."""
        modules, layer = work.context.modules, work.context["layer"]
        targets = work.edit_targets(layer, "mlp")
        if self.one_key == "contexts":
            key = double(average_keys(modules, targets.rows, layer, uniform=True)[:, 0])
        else:
            key = double(bare_keys(modules, targets.rows, layer)[:, 0])
        along = covariance_weighted(work.context.covariances.get(layer), key)
        return self.write_rank_one(work, targets, key=key, value=project(modules, layer, key), along=along)
