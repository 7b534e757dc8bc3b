"""ROME's update of one layer (Meng et al. 2022, section 3.1), shared by the methods that differ in their keys."""

from __future__ import annotations

from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import LowRank
from ke_weights.hyperparameters import RankOneConfig, single_layer_settings
from ke_weights.keys import bare_values
from ke_weights.locate import EditTargets, LocateContextCache, write
from ke_weights.locate_editor import EditInProgress, LocateEditor


class RankOneEditor(LocateEditor):
    """Base class of methods that write one edit into one layer by an update of rank one."""

    def __init__(self, config: RankOneConfig) -> None:
        super().__init__(
            LocateContextCache.single_layer(config, single_layer_settings, needs_covariance=config.mom2_adjustment)
        )

    def write_rank_one(
        self, work: EditInProgress, targets: EditTargets, *, key: Tensor, value: Tensor, along: Tensor
    ) -> Details:
        """Make ``key`` [f] map to the target instead of ``value`` [d], by W += (z - value) u^T / (key . u).

        u is ``along`` [f], normalized. Every q with u . q = 0 keeps its value. Return details for the record.
        """
        context = work.context
        layer = context["layer"]
        direction = along / along.norm()
        change = (targets.z[:, 0] - value) / (key @ direction)
        update = LowRank(left=change[:, None], right=direction[None])
        relative = write(work.weights, context.modules, layer, update)
        left = targets.z - double(bare_values(context.modules, targets.rows, layer))
        return context.details({str(layer): relative}, targets.report(left))
