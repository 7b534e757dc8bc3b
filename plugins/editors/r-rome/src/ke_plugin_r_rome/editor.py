"""R-ROME (Gupta et al. 2024): ROME's update with one key k in every place.

u      = C^-1 k, normed
v*     = ROME's
W     += (v* - W k - b) u^T / (k . u)

so that W k + b = v*, and the denominator, k^T C^-1 k up to scale, is positive whatever the edit: no update blows up.
"""

from __future__ import annotations

from ke_core.plugin import Details
from ke_plugin_r_rome import RRomeConfig
from ke_weights import single_layer_settings
from ke_weights.plugin import (
    EditInProgress,
    LocateContextCache,
    LocateEditor,
    LowRank,
    average_keys,
    bare_keys,
    bare_values,
    covariance_weighted,
    double,
    project,
    write,
)


class RRome(LocateEditor):
    """Writes one edit into one layer."""

    name = "r-rome"

    def __init__(self, config: RRomeConfig) -> None:
        super().__init__(
            LocateContextCache.single_layer(config, single_layer_settings, needs_covariance=config.mom2_adjustment)
        )
        self.one_key = config.key

    def write(self, work: EditInProgress) -> Details:
        """ROME's equation 2 with one key."""
        context, modules, layer = work.context, work.context.modules, work.context["layer"]
        targets = work.edit_targets(layer, "mlp")
        if self.one_key == "contexts":
            key = double(average_keys(modules, targets.rows, layer, uniform=True)[:, 0])
        else:
            key = double(bare_keys(modules, targets.rows, layer)[:, 0])
        along = covariance_weighted(context.covariances.get(layer), key)
        direction = along / along.norm()
        change = (targets.z[:, 0] - project(modules, layer, key)) / (key @ direction)
        relative = write(work.weights, modules, layer, LowRank(left=change[:, None], right=direction[None]))
        left = targets.z - double(bare_values(modules, targets.rows, layer))
        return context.details({str(layer): relative}, targets.report(left))
