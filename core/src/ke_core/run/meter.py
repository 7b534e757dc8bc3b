"""How much memory making an edit takes: the rise of what is in use above where it stood, at its highest.

The kernel's own high-water mark never falls within a process, so it cannot tell one edit from the one before; resident
memory is read every few milliseconds instead. What an allocator kept of earlier edits would hide the next one's rise
and is given back first.
"""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from ke_core.data.results import Peak

EVERY = 0.005  # seconds between two readings: a rise that is shorter may be missed
STATM = Path("/proc/self/statm")


class Meter:
    """``with Meter(model) as meter: ...``; afterwards ``meter.peak`` is the rise within the block."""

    def __init__(self, model: object) -> None:
        # the device's memory is the model's to know: nothing here imports torch
        make = getattr(model, "device_meter", None)
        self._device: Any = None if make is None else make()
        self.peak = Peak()
        self._over = Event()
        self._thread = Thread(target=self._watch, name="ke-meter", daemon=True)

    def __enter__(self) -> Self:
        _give_back()
        self._before = self._highest = resident()
        if self._device is not None:
            self._device.start()
        if self._before is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._look()
        self.peak = Peak(
            host=None if self._before is None or self._highest is None else self._highest - self._before,
            device=None if self._device is None else self._device.rise(),
        )

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self._look()

    def _look(self) -> None:
        now = resident()
        if now is not None and self._highest is not None:
            self._highest = max(self._highest, now)


def resident() -> int | None:
    """Bytes of this process that are in main memory now; None where the system does not say (it is not Linux)."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _give_back() -> None:
    """Free young garbage, then hand the system what the allocator keeps for later (glibc; elsewhere nothing)."""
    gc.collect(1)  # all generations would take a third of a second beside torch: too much for each of 3,000 edits
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
