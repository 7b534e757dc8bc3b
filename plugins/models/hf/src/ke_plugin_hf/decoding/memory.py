"""How many rows fit into a fraction of the free memory; fewer after running out of memory.

Other work than rows is split in halves if memory runs out (``halved``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import torch
from attrs import define, field, frozen

from ke_core.plugin import KEError
from ke_plugin_hf.decoding.free import free_bytes
from ke_plugin_hf.tensor_parallel import SPLIT, key_heads, smallest

CAP = {"cpu": 128, "cuda": 256}  # maximum rows in a batch; beyond it a row needs no less CPU time
READ = {"cpu": 512, "cuda": 8192}  # prompt tokens in one pass: enough to keep the device busy, with little padding
SHARE = 0.4  # fraction of free memory for keys, values and logits; the rest is for temporary tensors of a forward pass
SPARE = 0.1  # fraction of free memory for keys and values of finished rows
SMALLER = "free memory, load the model in bfloat16, or use a smaller one"

Work = TypeVar("Work")
Result = TypeVar("Result")


def out_of_memory(error: BaseException) -> bool:
    """Return whether the error means that an allocation failed, on any device."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in words or "can't allocate memory" in words)


def retry_smaller(error: BaseException) -> bool:
    """Return whether to repeat the model's work in smaller pieces: memory ran out, and no other process takes part."""
    return not SPLIT and out_of_memory(error)


def free_after_failure(error: BaseException) -> None:
    """Free what a failed allocation leaves behind: the frames of its traceback hold tensors."""
    error.with_traceback(None)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class TensorCache(Protocol):
    """An object that caches tensors between calls, only to save time."""

    def release(self) -> bool:
        """Free them; return whether there were any."""


KEEPERS: WeakSet[TensorCache] = WeakSet()
"""All caches that are still in use."""


def halved(work: Sequence[Work], do: Callable[[Sequence[Work]], Result], one: str) -> list[Result]:
    """Return the results of ``do`` for ``work``: all at once, or in halves, recursively, if memory runs out.

    The ``KEEPERS`` are freed before work is split. Raises KEError if not even a single piece fits; ``one`` names such a
    piece.
    """
    try:
        return [do(work)]
    except Exception as error:
        if not out_of_memory(error):
            raise
        released = [keeper.release() for keeper in KEEPERS]
        free_after_failure(error)
        if len(work) == 1 and not any(released):
            raise KEError(f"out of memory for a single {one}", hint=SMALLER) from error
    if any(released):
        return halved(work, do, one)
    middle = len(work) // 2
    return [*halved(work[:middle], do, one), *halved(work[middle:], do, one)]


def of_device(numbers: Mapping[str, int], device: torch.device) -> int:
    """Return the number for the type of ``device``; that of a CPU for an unknown type."""
    return numbers.get(device.type, numbers["cpu"])


def first_pass(lengths: Sequence[int], device: torch.device) -> int:
    """Return how many of the rows, longest first, to read in one pass: at least one, and no more tokens than useful."""
    return max(1, min(len(lengths), of_device(READ, device) // max(lengths[0], 1)))


@frozen(kw_only=True)
class RowBytes:
    """Memory of a row: ``token`` bytes for each except the ``shared`` first, ``logits`` for each position."""

    token: int
    shared: int
    logits: int

    def of(self, tokens: int, positions: int = 1) -> int:
        """Return the bytes of a row with that number of tokens, and logits at that number of positions."""
        return (tokens - self.shared) * self.token + positions * self.logits


def cached_width(config: Any) -> int:
    """Return the width of a token's keys in one layer: of the grouped heads, or of all heads without groups."""
    each = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(key_heads(config) * each)


@define
class RowBatchSize:
    """The number of rows to run together, each as large as the largest: caches are padded to the longest.

    ``limit``: the maximum bytes known not to fail; None until something failed, and again once twice as much memory is
    free as then. ``last``: the maximum of rows run together since the last call began. ``spare``: bytes that may be
    kept between calls.
    """

    device: torch.device
    limit: int | None = field(default=None, init=False)
    last: int = field(default=0, init=False)
    spare: int = field(default=0, init=False)
    _free: int = field(default=0, init=False)
    _free_then: int = field(default=0, init=False)

    def begin(self) -> None:
        """Start a call: its batches depend on the memory that is free now, and on nothing later."""
        free = smallest(free_bytes(self.device)) if SPLIT else free_bytes(self.device)
        self._free, self.spare = int(free * SHARE), int(free * SPARE)
        self.last = 0
        if free > 2 * self._free_then:  # for example, because another process has ended
            self.limit = None

    def fit(self, sizes: Iterable[int], running: Sequence[int] = ()) -> int:
        """Return how many rows of these bytes, in order, fit next to those ``running``; at least one if none is."""
        most = self._free if self.limit is None else min(self._free, self.limit)
        count, largest = len(running), max(running, default=0)
        for size in sizes:
            largest = max(largest, size)
            if count and (count >= of_device(CAP, self.device) or (count + 1) * largest > most):
                break
            count += 1
        self.last = max(self.last, count)
        return count - len(running)

    def failed(self, sizes: Sequence[int]) -> None:
        """Record that rows of these bytes did not fit together."""
        tried = len(sizes) * max(sizes) // 2
        self.limit = tried if self.limit is None else min(self.limit, tried)
        self.last, self._free_then = 0, free_bytes(self.device)


@define(kw_only=True, eq=False)
class DeviceMeter:
    """Measures the peak of tensor memory on ``devices`` above the value at ``start``.

    Uses torch's high-water mark (``max_memory_allocated``), which can be reset. Memory that the allocator reserves is
    not counted. Meters may be nested: one that resets the mark makes the others read it first.
    """

    devices: tuple[torch.device, ...]
    _before: int = field(default=0, init=False)
    _highest: dict[torch.device, int] = field(factory=dict, init=False)

    def start(self) -> None:
        """Start measuring."""
        for meter in STARTED:
            meter.look()
        for device in self.devices:
            torch.cuda.reset_peak_memory_stats(device)
        self._before = sum(torch.cuda.memory_allocated(device) for device in self.devices)
        STARTED.add(self)

    def look(self) -> None:
        """Read the current mark."""
        for device in self.devices:
            self._highest[device] = max(self._highest.get(device, 0), torch.cuda.max_memory_allocated(device))

    def peak(self) -> int:
        """Return the peak bytes since ``start``, summed over devices, each at its own peak."""
        self.look()
        return sum(self._highest.values())

    def rise(self) -> int:
        """Return ``peak`` minus the bytes allocated at ``start``."""
        return self.peak() - self._before


STARTED: WeakSet[DeviceMeter] = WeakSet()
"""All meters that are still in use."""
