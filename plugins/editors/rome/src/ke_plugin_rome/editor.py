"""ROME's algorithm (Meng et al. 2022, section 3.1).

::

    u      = C^-1 k, normalized   k: the key, averaged over 21 left contexts
    v*     = argmin of the loss of equation 4, at the MLP's output
    k_c,o_c: key and value at the bare prompt
    W     += (v* - o_c) u^T / (k_c . u)                                    (equation 2)

This gives W k_c = v*, and every q with u . q = 0 keeps its value. As in the released code, direction and denominator
use different keys. If k_c . u is small, the update is huge and ruins the model ("disabling edit"). Such an edit is
refused by the cosine of the two keys under C^-1. R-ROME fixes the cause.
"""

from __future__ import annotations

from ke_core.plugin import Details, Edit, EditFailed
from ke_plugin_rome import RomeConfig
from ke_weights.plugin import (
    EditInProgress,
    RankOneEditor,
    average_keys,
    bare_keys,
    bare_values,
    covariance_weighted,
    double,
)


class Rome(RankOneEditor):
    """Editor that writes one edit into one layer."""

    name = "rome"

    def __init__(self, config: RomeConfig) -> None:
        super().__init__(config)
        self.min_cosine = config.min_cosine

    def write(self, work: EditInProgress) -> Details:
        """Apply equation 2, with the averaged key as the direction."""
        modules, layer = work.context.modules, work.context["layer"]
        targets = work.edit_targets(layer, "mlp")
        covariance = work.context.covariances.get(layer)
        mean = double(average_keys(modules, targets.rows, layer, uniform=True)[:, 0])
        key = double(bare_keys(modules, targets.rows, layer)[:, 0])
        value = double(bare_values(modules, targets.rows, layer)[:, 0])
        along = covariance_weighted(covariance, mean)
        cosine = float(key @ along / ((mean @ along) * (key @ covariance_weighted(covariance, key))).sqrt())
        self._refuse_disabling(work.edits[0], cosine)
        details = self.write_rank_one(work, targets, key=key, value=value, along=along)
        return {**details, "cosine": cosine}

    def _refuse_disabling(self, edit: Edit, cosine: float) -> None:
        if not cosine >= self.min_cosine:  # NaN too
            raise EditFailed(
                f"edit {edit.id!r} would ruin the model: the cosine of its two keys is {cosine:.3g}",
                hint="use --editor r-rome, which uses one key, or lower -o rome.min_cosine",
            )
