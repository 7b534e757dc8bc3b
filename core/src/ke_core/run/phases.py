"""What a phase of a run takes: seconds, processor seconds, and the most memory in use while it lasted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter, process_time
from typing import Any

from attrs import define, field

from ke_core.run.meter import resident

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
