"""Limit the time of a plugin's code, and tell signals from interrupts that the plugin raises."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any

from attrs import define, field

from ke_core.interrupts import SIGNALS
from ke_core.spec.errors import BadConfig

TIMEOUT = "KE_PLUGIN_TIMEOUT"
SECONDS = 30.0
"""The limit for importing a plugin, and for each of its hooks."""
AGAIN = 1.0  # seconds until it is stopped again, if the plugin has caught OutOfTime


class OutOfTime(BaseException):
    """Stops a plugin; no ``except Exception`` of the plugin catches it."""


@define
class Watch:
    """A watched block of code. ``interrupted``: SIGINT or SIGTERM arrived in it."""

    started: float = field(factory=monotonic)
    interrupted: bool = False
    running: bool = True

    @property
    def seconds(self) -> float:
        """The time since the block started."""
        return monotonic() - self.started

    def interrupts(self, error: BaseException) -> bool:
        """Return whether ``error`` comes from a signal, and was not raised by the block itself."""
        return self.interrupted and isinstance(error, KeyboardInterrupt)


def timeout() -> float:
    """Return ``KE_PLUGIN_TIMEOUT`` in seconds, 0 for no limit. Raises BadConfig for an invalid value."""
    given = os.environ.get(TIMEOUT, "")
    try:
        seconds = float(given or SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < threading.TIMEOUT_MAX:
        raise BadConfig(f"{TIMEOUT} is {given!r}, not a number of seconds", hint="0 sets no limit")
    return seconds


@contextmanager
def watched(watch: Watch, limit: float) -> Iterator[None]:
    """Raise OutOfTime in the block after ``limit`` seconds. 0 means no limit.

    Windows and threads other than the main one have no such timer, so there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _noticed(watch), _limited(watch, limit):
        yield


@contextmanager
def _noticed(watch: Watch) -> Iterator[None]:
    """Note signals before their handlers are called."""
    handlers: dict[int, Any] = {number: found for number in SIGNALS if callable(found := signal.getsignal(number))}

    def note(number: int, frame: FrameType | None) -> None:
        watch.interrupted = True
        handlers[number](number, frame)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _limited(watch: Watch, limit: float) -> Iterator[None]:
    if not limit or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        if watch.running:
            raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    left, interval = signal.setitimer(signal.ITIMER_REAL, limit, AGAIN)
    try:
        yield
    finally:
        watch.running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - watch.seconds, 0.001), interval)
