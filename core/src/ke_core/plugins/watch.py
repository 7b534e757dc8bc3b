"""Limit the time of a plugin's code."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ke_core.spec.errors import BadConfig

TIMEOUT = "KE_PLUGIN_TIMEOUT"
SECONDS = 30.0
"""The limit for importing a plugin, and for each of its hooks."""
AGAIN = 1.0  # seconds until it is stopped again, if the plugin has caught OutOfTime


class OutOfTime(BaseException):
    """Stops a plugin; no ``except Exception`` of the plugin catches it."""


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
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after ``seconds``. 0 means no limit.

    Windows and threads other than the main one have no such timer, so there is no limit.
    """
    if not seconds or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before, started = signal.signal(signal.SIGALRM, stop), time.monotonic()
    due, every = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
        if due:  # the timer of a program that imports ke goes on
            signal.setitimer(signal.ITIMER_REAL, max(due - (time.monotonic() - started), 1e-3), every)
