"""How many rows fit: a guess from free memory, halved when it was too much, and remembered."""

from __future__ import annotations

import os
from collections.abc import Sequence
from weakref import WeakSet

import torch
from attrs import define, field

CAP = {"cpu": 64, "cuda": 256}
READ = {"cpu": 512, "cuda": 8192}  # prompt tokens in one pass: enough to keep the device busy, little padding
SHARE = 0.4  # of free memory for keys, values and logits; the rest for what a forward pass needs in between
UNKNOWN = 4 * 2**30


def out_of_memory(error: BaseException) -> bool:
    """Whether this says that an allocation failed, on whichever device."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in words or "can't allocate memory" in words)


def free_bytes(device: torch.device) -> int:
    """Memory that is free on ``device`` now; a cautious guess where nobody says."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return UNKNOWN


def first_pass(lengths: Sequence[int], device: torch.device) -> int:
    """How many of the rows, longest first, to read in one pass: no more tokens than a pass needs, one row at least."""
    most = READ.get(device.type, READ["cpu"])
    return max(1, min(len(lengths), most // max(lengths[0], 1)))


@define
class BatchSize:
    """The number of rows to run together. ``limit``: the most that is known not to fail, None until one failed."""

    device: torch.device
    limit: int | None = field(default=None)
    last: int = field(default=0, init=False)

    def rows(self, row_bytes: int) -> int:
        """Rows to run together, if each takes ``row_bytes`` for its keys, values and logits."""
        guess = int(free_bytes(self.device) * SHARE) // max(row_bytes, 1)
        self.last = max(1, min(guess, CAP.get(self.device.type, 64), self.limit or guess))
        return self.last

    def failed(self, tried: int) -> None:
        """``tried`` rows were too many."""
        self.limit = max(1, tried // 2)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


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
