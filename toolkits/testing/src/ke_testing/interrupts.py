"""Simulate Ctrl-C at a chosen point, to test what it leaves behind."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from attrs import define, field

Point = tuple[str, int, str]
"""File, line and event: a point where Python may run a signal handler."""


@define
class Interrupter:
    """Call the handler of SIGINT at the ``at``-th point in code of ``packages``; -1 only records the points.

    Python runs signal handlers when it enters a function, when it resumes a generator and after a call of a C function.
    A profiling function is called at the same points, with the frame that a signal handler would get.
    """

    at: int = -1
    packages: frozenset[str] | None = None
    seen: list[Point] = field(factory=list, init=False)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Handle an event of ``sys.setprofile``."""
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if event in ("call", "c_return") and (self.packages is None or package in self.packages):
            self.seen.append((frame.f_code.co_filename, frame.f_lineno, event))
            if len(self.seen) == self.at + 1:
                handler = signal.getsignal(signal.SIGINT)
                assert callable(handler)
                handler(signal.SIGINT, frame)

    def restart(self, at: int) -> None:
        """Restart counting."""
        self.at = at
        self.seen.clear()

    def interrupts(self, run: Callable[[], object]) -> bool:
        """Return whether ``run()`` raised KeyboardInterrupt."""
        try:
            sys.setprofile(self)
            try:
                run()
            finally:
                sys.setprofile(None)
        except KeyboardInterrupt:
            return True
        return False


@contextmanager
def ctrl_c() -> Iterator[None]:
    """Make SIGINT raise KeyboardInterrupt in the block, as in a terminal; a background job ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def points_of(run: Callable[[], object], packages: frozenset[str]) -> list[Point]:
    """Return the points of a second call of ``run``: the first call fills caches."""
    run()
    gc.collect()  # otherwise objects of earlier tests may be finalized during the recorded call
    recorder = Interrupter(packages=packages)
    assert not recorder.interrupts(run)
    return recorder.seen


def first_and_last(points: list[Point]) -> list[int]:
    """Return the indices of the first and the last occurrence of each point, so that loops are not tested at every
    iteration.
    """
    found: dict[Point, tuple[int, int]] = {}
    for number, point in enumerate(points):
        found[point] = (found.get(point, (number,))[0], number)
    return sorted({number for both in found.values() for number in both})
