"""R-ROME (Gupta et al. 2024): ROME's update with one key k in every place.

u      = C^-1 k, normed
v*     = ROME's
W     += (v* - W k - b) u^T / (k . u)

so that W k + b = v*, and the denominator, k^T C^-1 k up to scale, is positive whatever the edit: no update blows up.
"""

from __future__ import annotations

from ke_core.plugin import Details
from ke_plugin_r_rome import RRomeConfig
from ke_weights import single_settings
from ke_weights.plugin import (
    EditInProgress,
    LocateContextCache,
    LocateEditor,
    LowRank,
    average_keys,
    bare_keys,
    bare_values,
    double,
    project,
    weighed,
    write,
)


class RRome(LocateEditor):
    """Writes one edit into one layer."""

    name = "r-rome"

    def __init__(self, config: RRomeConfig) -> None:
        super().__init__(LocateContextCache.single(config, single_settings, weighs=config.mom2_adjustment))
        self.one_key = config.key

    def write(self, work: EditInProgress) -> Details:
        """ROME's equation 2 with one key."""
        ground, modules, layer = work.ground, work.ground.modules, work.ground["layer"]
        wanted = work.wanted(layer, "mlp")
        if self.one_key == "contexts":
            key = double(average_keys(modules, wanted.rows, layer, uniform=True)[:, 0])
        else:
            key = double(bare_keys(modules, wanted.rows, layer)[:, 0])
        along = weighed(ground.moments.get(layer), key)
        direction = along / along.norm()
        change = (wanted.z[:, 0] - project(modules, layer, key)) / (key @ direction)
        relative = write(work.weights, modules, layer, LowRank(left=change[:, None], right=direction[None]))
        left = wanted.z - double(bare_values(modules, wanted.rows, layer))
        return ground.details({str(layer): relative}, wanted.report(left))
