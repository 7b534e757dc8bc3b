"""AlphaEdit's algorithm (Fang et al. 2025): MEMIT with an update inside the null space of the preserved knowledge.

for each edit:              z_i as in MEMIT, on the model as it is now
for l in layers, ascending:
    K, R                    as in MEMIT
    W_l += R K^T P (Kp Kp^T P + K K^T P + L2 I)^-1        (equation 14; Kp: keys of the edits made before)
afterwards:                 K at every layer of the edited model joins Kp
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_alphaedit import AlphaEditConfig, derive
from ke_plugin_alphaedit.nullspace import NullSpace, null_space
from ke_weights.plugin import (
    EditInProgress,
    KeyCovariance,
    LocateContext,
    LocateContextCache,
    LocateEditor,
    LowRank,
    average_keys,
    spread_over_layers,
    uninterruptible_context,
)

Keys = Mapping[int, Tensor]
"""Keys of one batch of edits by layer, [f, N]."""

SHARE = 0.05
"""Of tr(C), above which the directions written to are no null space: the paper's discarded ones carry nearly all."""


class AlphaEdit(LocateEditor):
    """Writes a batch of edits into several layers, leaving common keys and earlier edits alone.

    Published code keeps null spaces and the keys of earlier edits in globals, so that a second model gets the first
    one's projection (pitfall S2), and an edit depends on edits long undone (S1). Here a null space belongs to the
    second covariance it was made of, and keys are gone with the edits that they are of.
    """

    def __init__(self, config: AlphaEditConfig) -> None:
        super().__init__(LocateContextCache.multi_layer(config, derive))
        self._spaces: WeakKeyDictionary[KeyCovariance, NullSpace] = WeakKeyDictionary()
        self._earlier: WeakKeyDictionary[LocateContext, list[Keys]] = WeakKeyDictionary()

    def write(self, work: EditInProgress) -> Details:
        """MEMIT's spreading, each update inside the null space and beside the keys of the edits that are open."""
        context = work.context
        layers, earlier = context["layers"], self._earlier.setdefault(context, [])
        spaces = {layer: self._space(context, layer) for layer in layers}
        targets = work.edit_targets(layers[-1], "block")

        def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
            return spaces[layer].update(keys, residual, [kept[layer] for kept in earlier])

        norms, left = spread_over_layers(work.weights, context.modules, targets, layers, solve)
        keys = {layer: average_keys(context.modules, targets.rows, layer) for layer in layers}
        work.closing.enter_context(_appended(earlier, keys))
        return context.details(norms, targets.report(left)) | {"null_spaces": described(spaces)}

    def _space(self, context: LocateContext, layer: int) -> NullSpace:
        covariance = context.covariances[layer]
        if covariance not in self._spaces:
            self._spaces[covariance] = null_space(covariance, layer, context["nullspace_threshold"], context["l2"])
        return self._spaces[covariance]


@uninterruptible_context
def _appended(earlier: list[Keys], keys: Keys) -> Iterator[None]:
    """``earlier`` with the ``keys`` of an edit while it is open."""
    earlier.append(keys)
    try:
        yield
    finally:
        earlier.pop()


def described(spaces: Mapping[int, NullSpace]) -> dict[str, Any]:
    """JSON values: rank, size, threshold, ridge and share of tr(C) of each layer's null space, and a warning."""
    return {
        str(layer): {
            "rank": space.basis.shape[1],
            "of": space.basis.shape[0],
            "threshold": space.threshold,
            "l2": space.l2,
            "share": space.kept,
        }
        | ({"warning": warning(space)} if space.kept > SHARE else {})
        for layer, space in spaces.items()
    }


def warning(space: NullSpace) -> str:
    """What the method's guarantee does not cover."""
    return (
        f"the directions that are written to carry {space.kept:.0%} of tr(C), more than {SHARE:.0%}: "
        "only what lies in the others is sure to stay"
    )
