"""MEMIT with history ("MEMIT_seq"; AlphaEdit's and ENCORE's code).

::

    dW = R K^T (lambda C + S + K K^T)^-1
    S  = S + weight K K^T                 after each batch

With fixed keys at one layer, the sum of the updates of several batches is the update of one batch with all edits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_key_history import KeyHistoryConfig
from ke_weights.plugin import EditInProgress, EditState, UpdateWrapper

Keys = Mapping[int, Tensor]
"""Keys of one batch by layer, [f, N], times the square root of the weight, in CPU memory."""


class KeyHistory(UpdateWrapper):
    """Wrapper that adds the keys of the open edits to the normal matrix."""

    def __init__(self, config: KeyHistoryConfig) -> None:
        self.config = config
        self.history: EditState[Keys] = EditState()
        self._solved: dict[int, Tensor] = {}

    @property
    def changes_normal_matrix(self) -> bool:
        """Whether earlier keys have a weight."""
        return self.config.weight > 0

    def earlier_keys(self, work: EditInProgress, layer: int) -> Sequence[Tensor]:
        """Return the keys of the earlier batches, and read those of this one."""
        if self.config.keys == "solved":
            self._solved[layer] = self._read(work, layer)
        place = work.context.modules.layers[layer].matrix
        return [keys[layer].to(place.device) for keys in self.history.of(work)]

    def after(self, work: EditInProgress) -> Details:
        """Add the keys of this batch to the history while its edits are active."""
        if self.config.weight:
            solved, self._solved = self._solved, {}
            self.history.keep(work, solved or {layer: self._read(work, layer) for layer in work.context.layers})
        return {"batches": len(self.history.of(work))}

    def _read(self, work: EditInProgress, layer: int) -> Tensor:
        scale: float = self.config.weight**0.5
        return (work.edit_keys(layer) * scale).cpu()
