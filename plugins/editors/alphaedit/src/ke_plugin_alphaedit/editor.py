"""AlphaEdit's algorithm (Fang et al. 2025): MEMIT with updates inside the null space of the preserved knowledge.

::

    for each edit:              z_i as in MEMIT, on the current model
    for l in layers, ascending:
        K, R                    as in MEMIT
        W_l += R K^T P (Kp Kp^T P + K K^T P + L2 I)^-1        (equation 14; Kp: keys of the earlier edits)
    afterwards:                 K at every layer of the edited model joins Kp
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_alphaedit import AlphaEditConfig, derive
from ke_weights.plugin import (
    EditInProgress,
    EditState,
    KeyCovariance,
    LocateContext,
    LocateContextCache,
    LocateEditor,
    LowRank,
    NullSpace,
    null_space,
    spread_over_layers,
)

Keys = Mapping[int, Tensor]
"""Keys of one batch of edits by layer, [f, N]."""

MAX_FRACTION = 0.05
"""Maximum fraction of tr(C) in a null space without a warning: in the paper it is almost zero."""


class AlphaEdit(LocateEditor):
    """Editor that writes a batch of edits into several layers and preserves common keys and earlier edits.

    Published code stores null spaces and the keys of earlier edits in globals, so a second model uses the projection of
    the first one, and an edit depends on edits that were reverted. Here a null space belongs to its covariance, and
    keys are dropped when their edits are reverted.
    """

    def __init__(self, config: AlphaEditConfig) -> None:
        super().__init__(LocateContextCache.multi_layer(config, derive))
        self._spaces: WeakKeyDictionary[KeyCovariance, NullSpace] = WeakKeyDictionary()
        self._earlier: EditState[Keys] = EditState()

    def write(self, work: EditInProgress) -> Details:
        """Spread the update as MEMIT does, inside the null space and constrained by the keys of the active edits."""
        context = work.context
        layers, earlier = context["layers"], self._earlier.of(work)
        spaces = {layer: self._space(context, layer) for layer in layers}
        targets = work.edit_targets(layers[-1], "block")

        def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
            return spaces[layer].update(keys, residual, [saved[layer] for saved in earlier])

        norms, left = spread_over_layers(work.weights, context.modules, targets, layers, solve)
        return context.details(norms, targets.report(left)) | {"null_spaces": null_space_details(spaces)}

    def after(self, work: EditInProgress) -> None:
        """Keep the keys of these edits while they are active."""
        self._earlier.keep(work, {layer: work.edit_keys(layer) for layer in work.context["layers"]})

    def _space(self, context: LocateContext, layer: int) -> NullSpace:
        covariance = context.covariances[layer]
        if covariance not in self._spaces:
            self._spaces[covariance] = null_space(covariance, layer, context["nullspace_threshold"], context["l2"])
        return self._spaces[covariance]


def null_space_details(spaces: Mapping[int, NullSpace]) -> dict[str, Any]:
    """Return JSON values for each layer: rank, dimension, threshold, ridge, fraction of tr(C), and a warning."""
    return {
        str(layer): {
            "rank": space.basis.shape[1],
            "of": space.basis.shape[0],
            "threshold": space.threshold,
            "l2": space.l2,
            "share": space.fraction,
        }
        | ({"warning": warning(space)} if space.fraction > MAX_FRACTION else {})
        for layer, space in spaces.items()
    }


def warning(space: NullSpace) -> str:
    """Return the warning that the guarantee does not cover many common keys."""
    return (
        f"the null space carries {space.fraction:.0%} of tr(C), more than {MAX_FRACTION:.0%}: "
        "only the outputs for the other directions are guaranteed not to change"
    )
