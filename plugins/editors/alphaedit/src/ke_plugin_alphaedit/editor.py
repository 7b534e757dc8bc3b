"""AlphaEdit's algorithm (Fang et al. 2025): MEMIT with an update inside the null space of the preserved knowledge.

for each edit:              z_i as in MEMIT, on the model as it is now
for l in layers, ascending:
    K, R                    as in MEMIT
    W_l += R K^T P (Kp Kp^T P + K K^T P + L2 I)^-1        (equation 14; Kp: keys of the edits made before)
afterwards:                 K at every layer of the edited model joins Kp
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from ke_core.plugin import Direct, Edit, Edited, Session
from ke_core.weights import Ground, Grounds, LowRank, Moment, OpenModel, average_keys, spread
from ke_plugin_alphaedit import AlphaEditConfig, settings
from ke_plugin_alphaedit.nullspace import NullSpace, null_space


class AlphaEdit:
    """Writes a batch of edits into several layers, leaving common keys and earlier edits alone.

    Published code keeps null spaces and the keys of earlier edits in globals, so that a second model gets the first
    one's projection (pitfall S2), and an edit depends on edits long undone (S1). Here a null space belongs to the
    second moment it was made of, and keys are gone with the edits that they are of.
    """

    def __init__(self, config: AlphaEditConfig) -> None:
        self.grounds = Grounds(
            config=config,
            settle=settings,
            layers=lambda found: found["layers"].value,
            contexts=((config.template_length, 5),),
        )
        self._spaces: WeakKeyDictionary[Moment, NullSpace] = WeakKeyDictionary()
        self._earlier: dict[Ground, dict[int, list[Tensor]]] = {}

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits without a cloze, without exactly one new object, too long, or contradicting an earlier one."""
        return self.grounds.unmakeable(session, edits)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits`` together, beside those that are open. Raises UnsupportedEdit and EditFailed."""
        if not edits:
            yield Direct(session)
            return
        with (
            self.grounds.under(session, edits) as ground,
            self._keys(ground) as earlier,
            session.model.patch() as weights,
        ):
            layers = ground["layers"]
            spaces = {layer: self._space(ground, layer) for layer in layers}
            wanted = ground.wanted(session, edits, layers[-1], "block")

            def solve(layer: int, keys: Tensor, residual: Tensor) -> LowRank:
                return spaces[layer].update(keys, residual, earlier[layer])

            norms, left = spread(weights, ground.modules, wanted, layers, solve)
            details = ground.details(norms, wanted.report(left)) | {"null_spaces": described(spaces)}
            made = {layer: average_keys(ground.modules, wanted.rows, layer) for layer in layers}
            for layer, keys in made.items():
                earlier[layer].append(keys)
            try:
                yield Direct(session, details)
            finally:
                for layer in layers:
                    earlier[layer].pop()

    def _space(self, ground: Ground, layer: int) -> NullSpace:
        moment = ground.moments[layer]
        if moment not in self._spaces:
            self._spaces[moment] = null_space(moment, layer, ground["nullspace_threshold"], ground["l2"])
        return self._spaces[moment]

    @contextmanager
    def _keys(self, ground: Ground) -> Iterator[Mapping[int, list[Tensor]]]:
        """Keys of the edits that are open on ``ground``, by layer; the outermost edit begins the lists."""
        if ground in self._earlier:
            yield self._earlier[ground]
            return
        self._earlier[ground] = {layer: [] for layer in ground["layers"]}
        try:
            yield self._earlier[ground]
        finally:
            del self._earlier[ground]


def described(spaces: Mapping[int, NullSpace]) -> dict[str, Any]:
    """JSON values: rank, size, threshold, ridge and share of tr(C) of each layer's null space."""
    return {
        str(layer): {
            "rank": space.basis.shape[1],
            "of": space.basis.shape[0],
            "threshold": space.threshold,
            "l2": space.l2,
            "share": space.kept,
        }
        for layer, space in spaces.items()
    }
