"""How many rows fit: as many as some bytes hold, a share of what is free; fewer when that was too much.

What takes other work than rows does it in halves when memory runs out (``halved``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar
from weakref import WeakSet

import torch
from attrs import define, field, frozen

from ke_core.plugin import KEError
from ke_plugin_hf.decoding.free import free_bytes

CAP = {"cpu": 128, "cuda": 256}  # rows together; beyond it a row takes no less of a processor's time
READ = {"cpu": 512, "cuda": 8192}  # prompt tokens in one pass: enough to keep the device busy, little padding
SHARE = 0.4  # of free memory for keys, values and logits; the rest for what a forward pass needs in between
SPARE = 0.1  # of free memory for what rows that ended had read
SMALLER = "free memory, load the model in bfloat16, or take a smaller one"

Work = TypeVar("Work")
Result = TypeVar("Result")


def out_of_memory(error: BaseException) -> bool:
    """Whether this says that an allocation failed, on whichever device."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in words or "can't allocate memory" in words)


def let_go(error: BaseException) -> None:
    """Free what an allocation that failed leaves behind: the frames of its traceback hold tensors."""
    error.with_traceback(None)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class TensorCache(Protocol):
    """Somebody who keeps tensors between calls, to save time alone."""

    def release(self) -> bool:
        """Give them up; whether there were any."""


KEEPERS: WeakSet[TensorCache] = WeakSet()
"""Every one that is still held by somebody."""


def halved(work: Sequence[Work], do: Callable[[Sequence[Work]], Result], one: str) -> list[Result]:
    """What ``do`` gives for ``work``: whole, or in halves, and halves of these, where memory does not hold more.

    What the ``KEEPERS`` have goes before work is split. Raises KEError if not even a single piece fits; ``one`` names
    such a piece.
    """
    try:
        return [do(work)]
    except Exception as error:
        if not out_of_memory(error):
            raise
        released = [keeper.release() for keeper in KEEPERS]
        let_go(error)
        if len(work) == 1 and not any(released):
            raise KEError(f"out of memory for a single {one}", hint=SMALLER) from error
    if any(released):
        return halved(work, do, one)
    middle = len(work) // 2
    return [*halved(work[:middle], do, one), *halved(work[middle:], do, one)]


def first_pass(lengths: Sequence[int], device: torch.device) -> int:
    """How many of the rows, longest first, to read in one pass: no more tokens than a pass needs, one row at least."""
    most = READ.get(device.type, READ["cpu"])
    return max(1, min(len(lengths), most // max(lengths[0], 1)))


@frozen(kw_only=True)
class RowBytes:
    """What a row takes in memory: ``token`` bytes for each but the ``shared`` first, ``logits`` for each position."""

    token: int
    shared: int
    logits: int

    def of(self, tokens: int, positions: int = 1) -> int:
        """A row of so many tokens, with logits at so many positions."""
        return (tokens - self.shared) * self.token + positions * self.logits


@define
class RowBatchSize:
    """The number of rows to run together, of which each takes as much as the largest: caches are padded to the longest.

    ``limit``: bytes, the most that is known not to fail; None until something failed. ``last``: the most rows that were
    run together since the last call began. ``spare``: bytes that may be kept from one call to the next.
    """

    device: torch.device
    limit: int | None = field(default=None, init=False)
    last: int = field(default=0, init=False)
    spare: int = field(default=0, init=False)
    _free: int = field(default=0, init=False)

    def begin(self) -> None:
        """A call begins: what is free now is what its batches are made by, so that they depend on nothing later."""
        free = free_bytes(self.device)
        self._free, self.spare = int(free * SHARE), int(free * SPARE)
        self.last = 0

    def fit(self, sizes: Iterable[int], running: Sequence[int] = ()) -> int:
        """How many rows of these bytes, in order, fit beside those ``running``: one at least if none is."""
        most = self._free if self.limit is None else min(self._free, self.limit)
        count, largest = len(running), max(running, default=0)
        for size in sizes:
            largest = max(largest, size)
            if count and (count >= CAP.get(self.device.type, CAP["cpu"]) or (count + 1) * largest > most):
                break
            count += 1
        self.last = max(self.last, count)
        return count - len(running)

    def failed(self, sizes: Sequence[int]) -> None:
        """Rows of these bytes were too much together."""
        tried = len(sizes) * max(sizes) // 2
        self.limit = tried if self.limit is None else min(self.limit, tried)
        self.last = 0


@define(kw_only=True, eq=False)
class DeviceMeter:
    """How far tensors on ``devices`` rise, at their highest, above what was allocated at ``start``.

    torch's own high-water mark (``max_memory_allocated``), which can be set back; what its allocator keeps in reserve
    is not counted. Meters may lie within one another: one that sets the mark back has the others read it first.
    """

    devices: tuple[torch.device, ...]
    _before: int = field(default=0, init=False)
    _highest: dict[torch.device, int] = field(factory=dict, init=False)

    def start(self) -> None:
        """Count from here on."""
        for meter in STARTED:
            meter.look()
        for device in self.devices:
            torch.cuda.reset_peak_memory_stats(device)
        self._before = sum(torch.cuda.memory_allocated(device) for device in self.devices)
        STARTED.add(self)

    def look(self) -> None:
        """Take in the mark as it stands."""
        for device in self.devices:
            self._highest[device] = max(self._highest.get(device, 0), torch.cuda.max_memory_allocated(device))

    def peak(self) -> int:
        """Bytes at the highest since ``start``; summed over devices, each at its own highest."""
        self.look()
        return sum(self._highest.values())

    def rise(self) -> int:
        """``peak`` above what was allocated at ``start``."""
        return self.peak() - self._before


STARTED: WeakSet[DeviceMeter] = WeakSet()
"""Every meter that is still held by somebody."""
