"""The side memories of a sequence of edits: sharding, merging, and retrieval (WISE section 2.3.2).

Edits are learned in the open memory. After every ``save_freq`` edits it becomes a shard, and the next one starts from W
with another mask. After every ``merge_freq`` edits, the last shards are merged by TIES:

    retrieve    each merged memory is kept, with the smallest activation of its edits; the router chooses among all
    merge       there is one merged memory. From the second merge on, new shards have the weight 0.4 together, and the
                previous merged memory 0.6
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Literal

import torch
from attrs import evolve, frozen
from torch import Tensor

from ke_plugin_wise.ties import ties

NEW_SHARDS, PREVIOUS = 0.4, 0.6
Variant = Literal["retrieve", "merge"]


@frozen(kw_only=True)
class Sharding:
    """``save_freq`` edits in a shard, ``merge_freq`` edits in a merge, and the fraction that TIES keeps."""

    variant: Variant
    save_freq: int
    merge_freq: int
    density: float


@frozen(eq=False)
class SideMemory:
    """D = W' - W [out, in], and the smallest routing score of its edits at the end of their training."""

    difference: Tensor
    activation: float


@frozen(kw_only=True, eq=False)
class SideMemories:
    """``count`` edits so far; the open memory; shards that are not merged yet, oldest first; and merged memories."""

    count: int = 0
    open: SideMemory | None = None
    shards: tuple[SideMemory, ...] = ()
    merged: tuple[SideMemory, ...] = ()

    def after(self, learned: SideMemory, how: Sharding, dtype: torch.dtype) -> SideMemories:
        """Return the memories after one more edit, whose training ended with ``learned``.

        ``dtype``: of finished memories; the open one has the precision of training.
        """
        lowest = min(learned.activation, self.open.activation if self.open else inf)
        found = evolve(self, count=self.count + 1, open=SideMemory(learned.difference, lowest))
        if found.count % how.save_freq == 0:
            shard = SideMemory(learned.difference.to(dtype), lowest)
            found = evolve(found, open=None, shards=(*self.shards, shard))
        if found.count % how.merge_freq == 0:
            earlier = self.merged if how.variant == "retrieve" else ()
            found = evolve(found, shards=(), merged=(*earlier, found.merge(how, dtype)))
        return found

    def merge(self, how: Sharding, dtype: torch.dtype) -> SideMemory:
        """Return the merge of all shards; in the variant ``merge``, with the memory that was merged before."""
        before = self.merged if how.variant == "merge" else ()
        share = (NEW_SHARDS if before else 1.0) / len(self.shards)
        weights = [share] * len(self.shards) + [PREVIOUS] * len(before)
        parts = (*self.shards, *before)
        merged = ties([part.difference for part in parts], weights, how.density)
        return SideMemory(merged.to(dtype), min(part.activation for part in parts))

    def used(self, how: Sharding) -> tuple[SideMemory, ...]:
        """Return the memories among which a query is routed: the open one first, then earlier ones."""
        now = () if self.open is None else (self.open,)
        if how.variant == "retrieve":
            return (*now, *self.merged, *self.shards)
        whole = (self.merge(how, self.shards[-1].difference.dtype),) if self.shards else self.merged
        lowest = min((part.activation for part in (*now, *whole)), default=inf)
        return tuple(SideMemory(part.difference, lowest) for part in (*now, *whole))

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a file, from which ``read_memories`` restores the memories."""
        named = {"open": () if self.open is None else (self.open,), "shard": self.shards, "merged": self.merged}
        found = {f"{kind} {at}": part.difference for kind, parts in named.items() for at, part in enumerate(parts)}
        for kind, parts in named.items():
            found[f"{kind} activations"] = torch.tensor([part.activation for part in parts], dtype=torch.float64)
        return found


def read_memories(tensors: Mapping[str, Tensor], count: int) -> SideMemories:
    """Return the memories of ``SideMemories.tensors``. Raises KeyError if a tensor is missing."""

    def parts(kind: str) -> Sequence[SideMemory]:
        activations = tensors[f"{kind} activations"].tolist()
        return [SideMemory(tensors[f"{kind} {at}"], activation) for at, activation in enumerate(activations)]

    (now,) = parts("open") or (None,)
    return SideMemories(count=count, open=now, shards=tuple(parts("shard")), merged=tuple(parts("merged")))
