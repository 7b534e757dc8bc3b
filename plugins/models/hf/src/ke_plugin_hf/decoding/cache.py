"""A cache of keys and values that grows in place: a decoding step writes one column and copies none."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

AHEAD = 64
"""Number of columns that are allocated at once."""


class GrowingLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """transformers' layer concatenates old and new columns to a new tensor at every step; this one does not.

    ``keys`` and ``values`` are views of the columns in use. You may replace them with other tensors.
    """

    keys: Tensor
    values: Tensor
    _rooms: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append columns and return all of them. [B, kv heads, T, d] each."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        added = key_states.shape[-2]
        before = self.get_seq_length()
        if self._rooms is None or not self._fits(self._rooms[0], before + added):
            self._rooms = (_roomy(self.keys, key_states, before), _roomy(self.values, value_states, before))
        for room, states in zip(self._rooms, (key_states, value_states), strict=True):
            room[:, :, before : before + added] = states
        self.keys, self.values = (room[:, :, : before + added] for room in self._rooms)
        return self.keys, self.values

    @property
    def states(self) -> tuple[Tensor, Tensor]:
        """The keys and values."""
        return self.keys, self.values

    def replace(self, keys: Tensor, values: Tensor) -> None:
        """Use other tensors, and free the room of the old ones."""
        self.keys, self.values, self._rooms = keys, values, None

    def _fits(self, room: Tensor, columns: int) -> bool:
        """Return whether ``keys`` are still the start of the allocated room, and the room is large enough."""
        same = self.keys.data_ptr() == room.data_ptr() and self.keys.stride() == room.stride()
        return same and self.keys.shape[:2] == room.shape[:2] and columns <= room.shape[2]


class GrowingCache(DynamicCache):  # type: ignore[misc]  # as above
    """A ``DynamicCache`` of such layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_class_to_replicate = GrowingLayer


def _roomy(held: Tensor, added: Tensor, before: int) -> Tensor:
    rows, heads, columns, width = added.shape
    room = added.new_empty((rows, heads, before + columns + AHEAD, width))
    if before:
        room[:, :, :before] = held
    return room
