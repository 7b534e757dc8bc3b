"""Keys and values of finished rows, so that a prompt that continues one of them is read from there.

A method with a loop repeats its prompt in every call, extended by generated and retrieved text. Reading it from the
start each time costs c (c + 1) / 2 turns for c calls, instead of c.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence

from attrs import define, field, frozen

from ke_plugin_hf.decoding.forward import Layers
from ke_plugin_hf.decoding.groups import SHORTEST, common


@frozen(kw_only=True, eq=False)
class PrefillState:
    """Keys and values, each [kv heads, T, d], of the T tokens of ``ids`` from position ``first``."""

    ids: tuple[int, ...]
    first: int
    layers: Layers

    @property
    def nbytes(self) -> int:
        """Its memory in bytes."""
        return sum(keys.nbytes + values.nbytes for keys, values in self.layers)


@define(eq=False)
class PrefillCache:
    """States of one model with its current weights. The oldest are dropped if all need more than ``room`` bytes."""

    room: int = field(default=0, init=False)
    _digest: str = field(default="", init=False)
    _kept: dict[tuple[int, ...], PrefillState] = field(factory=dict, init=False)
    _order: list[tuple[int, ...]] = field(factory=list, init=False)
    _bytes: int = field(default=0, init=False)

    def begin(self, digest: str, room: int) -> None:
        """Set the digest of the weights. States of other weights are dropped."""
        if digest != self._digest:
            self.clear()
        self._digest, self.room = digest, room
        self._shrink()

    def longest(self, ids: Sequence[int], first: int) -> PrefillState | None:
        """Return the state with the longest common prefix with ``ids``, cut to it; None if it saves almost nothing.

        Tokens before ``first`` do not count: their keys and values are available anyway.
        """
        wanted = tuple(ids)
        at = bisect(self._order, wanted)  # all states with a common prefix are neighbors
        best = max(self._order[max(at - 1, 0) : at + 1], key=lambda other: common(other, wanted), default=())
        length = common(best, wanted)
        if length - first < SHORTEST or self._kept[best].first > first:
            return None
        found = self._kept[best] = self._kept.pop(best)  # now the most recent one
        columns = slice(first - found.first, length - found.first)
        return PrefillState(
            ids=best, first=first, layers=tuple((k[:, columns], v[:, columns]) for k, v in found.layers)
        )

    def keep(self, reading: PrefillState, instead: tuple[int, ...] = ()) -> None:
        """Add a state; ``instead`` are the tokens of the one that it continues."""
        for ids in (instead, reading.ids):
            if ids in self._kept:
                self._drop(ids)
        if reading.nbytes > self.room:
            return
        self._kept[reading.ids] = reading
        self._bytes += reading.nbytes
        insort(self._order, reading.ids)
        self._shrink()

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Free the memory."""
        self._kept.clear()
        self._order.clear()
        self._bytes = 0

    def _shrink(self) -> None:
        while self._bytes > self.room:
            self._drop(next(iter(self._kept)))

    def _drop(self, ids: tuple[int, ...]) -> None:
        self._bytes -= self._kept.pop(ids).nbytes
        del self._order[bisect(self._order, ids) - 1]
