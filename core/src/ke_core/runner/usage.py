"""Measure time and memory of the phases of a run, and count what a server charges for."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any, Self
from uuid import uuid4

from attrs import define, field, frozen

from ke_core.spec.protocols import Progress
from ke_core.spec.records import Usage
from ke_core.spec.results import Peak

EVERY = 0.005  # seconds between two readings: a shorter peak may be missed
STATM = Path("/proc/self/statm")


@define(kw_only=True)
class Phase:
    """``seconds`` of wall time, ``cpu_seconds`` of all threads, and the peak memory in bytes.

    ``host`` is the resident memory of the process, ``device`` the memory of tensors on accelerators. None: unknown.
    ``ended``: ``done``, or the name of the exception.
    """

    name: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    host: int | None = None
    device: int | None = None
    ended: str = "done"
    rise: Peak = field(factory=Peak)

    def line(self) -> dict[str, Any]:
        """Return the fields of the log."""
        return {
            "phase": self.name,
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "peak_host_bytes": self.host,
            "peak_device_bytes": self.device,
            "ended": self.ended,
        }


class HostMemory:
    """The highest resident memory of this process in a block. ``highest`` is None if the system does not report it."""

    def __enter__(self) -> Self:
        self._before = self.highest = resident()
        self._over = Event()
        self._thread = Thread(target=self._watch, name="ke-memory", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
        self._read()

    @property
    def rise(self) -> int | None:
        """The highest memory minus that at the start."""
        return None if self.highest is None or self._before is None else self.highest - self._before

    def _watch(self) -> None:
        while self.highest is not None and not self._over.wait(EVERY):
            self._read()

    def _read(self) -> None:
        if self.highest is not None:
            self.highest = max(self.highest, resident() or 0)


def _device_meter(model: object) -> Any:
    """Start and return the meter of the model's accelerators. None for a model without one. Torch is not imported."""
    make = getattr(model, "device_meter", None)
    device: Any = None if make is None else make()
    if device is not None:
        device.start()
    return device


@contextmanager
def measured_phase(name: str, model: object = None, progress: Progress | None = None) -> Iterator[Phase]:
    """Measure a block, and show its name in ``progress``. The figures are complete when it ends.

    ``model``: its accelerators are measured.
    """
    if progress is not None:
        progress.advance(name, 0)
    _release_memory()
    phase, device, host = Phase(name=name), _device_meter(model), HostMemory()
    wall, cpu = perf_counter(), process_time()
    try:
        with host:
            yield phase
    except BaseException as error:
        phase.ended = type(error).__name__
        raise
    finally:
        phase.seconds, phase.cpu_seconds = perf_counter() - wall, process_time() - cpu
        phase.host, phase.rise = host.highest, Peak(host=host.rise)
        if device is not None:
            phase.device, phase.rise = device.peak(), Peak(host=host.rise, device=device.rise())
        if progress is not None:
            progress.advance(name, 1, 1)


def resident() -> int | None:
    """Return the resident memory of this process in bytes. None on systems other than Linux."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _release_memory() -> None:
    """Free young garbage, then return the allocator's free memory to the system (glibc only)."""
    gc.collect(1)  # all generations need 0.3 s with torch: too long for each of 3,000 edits
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@frozen(kw_only=True)
class Prices:
    """The prices of a million prompt tokens and of a million generated ones. 0: unknown."""

    prompt: float = 0.0
    generated: float = 0.0


FREE = Prices()


def since_last(model: object, prices: Prices) -> tuple[Usage, ...]:
    """Return the usage of ``model``'s server since the last call. Empty for a local model."""
    usage: Any = getattr(model, "usage", None)
    counts = {} if usage is None else usage.take()
    if not any(counts.values()):
        return ()
    return (Usage(id=uuid4().hex, **counts, price_in=prices.prompt, price_out=prices.generated),)
