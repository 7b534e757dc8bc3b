"""Prefixes whose keys and values were computed before, so that a later call with the same weights reuses them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from ke_plugin_hf.decoding.forward import NO_PREFIX, Forward, Prefix
from ke_plugin_hf.decoding.groups import SHORTEST, common

KEPT = 4


@define(eq=False)
class Prefixes:
    """The few prefixes used last, by the digest of the weights that made them.

    Of two sets of weights at most: those in use, and those in use before, to which an edit that is taken back returns.
    """

    _kept: list[tuple[str, Prefix]] = field(factory=list, init=False)

    def get(self, forward: Forward, digest: str, ids: Sequence[int]) -> Prefix:
        """The keys and values of ``ids``: kept ones cut or continued, since none depends on later tokens."""
        known = self.longest(digest, ids)
        if len(known.ids) == len(ids):
            return known
        made = forward.prefix(ids, known)
        # What the new one begins with is a cut of it: keep the longer only.
        self._kept = [(its, kept) for its, kept in self._kept if its != digest or not _begins(made, kept)]
        before = next((its for its, _kept in self._kept if its != digest), digest)
        self._kept = [(digest, made), *(pair for pair in self._kept if pair[0] in (digest, before))][:KEPT]
        return made

    def longest(self, digest: str, ids: Sequence[int]) -> Prefix:
        """The longest beginning of ``ids`` that is kept; NO_PREFIX if that is too short to be of use."""
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
        """Give up those of other weights."""
        self._kept = [pair for pair in self._kept if pair[0] == digest]

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Give the memory back."""
        self._kept.clear()


def _begins(whole: Prefix, part: Prefix) -> bool:
    return whole.ids[: len(part.ids)] == part.ids
