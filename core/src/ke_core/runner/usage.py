"""What a phase of a run takes: seconds, processor seconds, and the most memory in use while it lasted."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, process_time
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from attrs import define, field, frozen

from ke_core.spec.records import Usage
from ke_core.spec.results import Peak

EVERY = 0.02  # seconds between two readings: a peak that is shorter may be missed


@define(kw_only=True)
class Phase:
    """``seconds`` of wall time, ``cpu_seconds`` of all threads together; ``host`` and ``device``: bytes at the highest.

    ``host`` is resident memory of the process, ``device`` tensors on accelerators; None where nobody could say.
    ``ended``: ``done``, or the name of the exception that ended it. ``facts``: what else is to be said of it.
    """

    name: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    host: int | None = None
    device: int | None = None
    ended: str = "done"
    facts: dict[str, Any] = field(factory=dict)

    def line(self) -> dict[str, Any]:
        """As it stands in a log."""
        return {
            "phase": self.name,
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "peak_host_bytes": self.host,
            "peak_device_bytes": self.device,
            "ended": self.ended,
            **self.facts,
        }


@contextmanager
def measured_phase(name: str, model: object = None) -> Iterator[Phase]:
    """Measure what is done inside; the figures are there when it is over. ``model``: whose accelerators count."""
    phase = Phase(name=name, host=resident())
    make = getattr(model, "device_meter", None)
    device: Any = None if make is None else make()
    over = Event()
    thread = Thread(target=_watch, args=(phase, over), name="ke-phase", daemon=True)
    if device is not None:
        device.start()
    thread.start()
    wall, cpu = perf_counter(), process_time()
    try:
        yield phase
    except BaseException as error:
        phase.ended = type(error).__name__
        raise
    finally:
        phase.seconds, phase.cpu_seconds = perf_counter() - wall, process_time() - cpu
        over.set()
        thread.join()
        _look(phase)
        if device is not None:
            phase.device = device.peak()


def _watch(phase: Phase, over: Event) -> None:
    while not over.wait(EVERY):
        _look(phase)


def _look(phase: Phase) -> None:
    now = resident()
    if now is not None and phase.host is not None:
        phase.host = max(phase.host, now)


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


@frozen(kw_only=True)
class Prices:
    """Of a million prompt tokens and of a million generated ones; 0 where nobody has said one."""

    prompt: float = 0.0
    generated: float = 0.0


FREE = Prices()


def since_last(model: object, prices: Prices) -> tuple[Usage, ...]:
    """What ``model``'s server was asked since the last time; nothing for a model that is loaded here."""
    usage: Any = getattr(model, "usage", None)
    counts = {} if usage is None else usage.take()
    if not any(counts.values()):
        return ()
    return (Usage(id=uuid4().hex, **counts, price_in=prices.prompt, price_out=prices.generated),)
