"""ROME's algorithm (Meng et al. 2022, section 3.1).

u      = C^-1 k, normed       k: the key, averaged over 21 left contexts
v*     = argmin of the loss of equation 4, at the MLP's output
k_c,o_c: key and value at the bare prompt
W     += (v* - o_c) u^T / (k_c . u)                                    (equation 2)

so that W k_c = v*, and every q with u . q = 0 keeps its value. Key direction and denominator rest on different keys, as
in the released code: where k_c . u is small the update is huge, and the model is ruined ("disabling edit"). Such an
edit is refused here, by the cosine of the two keys under C^-1. R-ROME fixes the cause.
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
    """Writes one edit into one layer."""

    name = "rome"

    def __init__(self, config: RomeConfig) -> None:
        super().__init__(config)
        self.min_cosine = config.min_cosine

    def write(self, work: EditInProgress) -> Details:
        """Apply equation 2, with the averaged key as direction."""
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
                f"edit {edit.id!r} would ruin the model: the keys in its two places have cosine {cosine:.3g}",
                hint="use r-rome, which has one key, or lower rome.min_cosine",
            )
