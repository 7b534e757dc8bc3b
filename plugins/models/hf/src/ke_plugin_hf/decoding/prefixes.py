"""Cached prefixes: later calls with the same weights reuse their keys and values."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from ke_plugin_hf.decoding.forward import NO_PREFIX, Forward, Prefix
from ke_plugin_hf.decoding.groups import SHORTEST, common

KEPT = 4


@define(eq=False)
class Prefixes:
    """The most recently used prefixes, by the digest of the weights that computed them.

    For at most two sets of weights: the current ones, and the previous ones, to which an undone edit returns.
    """

    _kept: list[tuple[str, Prefix]] = field(factory=list, init=False)

    def get(self, forward: Forward, digest: str, ids: Sequence[int]) -> Prefix:
        """Return the keys and values of ``ids``. Cached ones are cut or continued, because none depends on later
        tokens.
        """
        known = self.longest(digest, ids)
        if len(known.ids) == len(ids):
            return known
        made = forward.prefix(ids, known)
        # The longer prefix contains the shorter one: keep only the longer.
        self._kept = [(its, kept) for its, kept in self._kept if its != digest or not _begins(made, kept)]
        before = next((its for its, _kept in self._kept if its != digest), digest)
        self._kept = [(digest, made), *(pair for pair in self._kept if pair[0] in (digest, before))][:KEPT]
        return made

    def longest(self, digest: str, ids: Sequence[int]) -> Prefix:
        """Return the longest cached prefix of ``ids``, or NO_PREFIX if it is too short to be useful."""
        best = max(
            ((common(kept.ids, ids), number) for number, (its, kept) in enumerate(self._kept) if its == digest),
            default=(0, 0),
        )
        if best[0] < SHORTEST:
            return NO_PREFIX
        pair = self._kept.pop(best[1])
        self._kept.insert(0, pair)
        return pair[1].cut(best[0])

    def only(self, digest: str) -> None:
        """Drop those of other weights."""
        self._kept = [pair for pair in self._kept if pair[0] == digest]

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Free the memory."""
        self._kept.clear()


def _begins(whole: Prefix, part: Prefix) -> bool:
    return whole.ids[: len(part.ids)] == part.ids
