"""Consoles and progress: results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Self

import click
from attrs import define
from rich.console import Console

from ke_core.cli.app import App
from ke_core.results.formatting import duration
from ke_core.results.sanitize import one_line
from ke_core.spec.protocols import Progress

if TYPE_CHECKING:
    from rich.progress import TaskID

WIDTH = 100  # columns of a table that goes to a file or a pipe
QUIET_SECONDS = 20.0  # between two lines of progress without a terminal


def out() -> Console:
    """Standard output, for results."""
    return _console(stderr=False)


def err() -> Console:
    """Standard error, for notes and progress. It prints nothing with ``ke --quiet``."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    several = os.environ.get("WORLD_SIZE", "1") != "1"
    follows = several and os.environ.get("RANK", "0") != "0"  # only the first process of a run prints
    context = click.get_current_context(silent=True)
    app = context.find_object(App) if context and stderr else None
    quiet = follows or (app is not None and app.quiet)
    console = Console(stderr=stderr, highlight=False, soft_wrap=False, quiet=quiet)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = WIDTH
    return console


class BarProgress(Progress):
    """Progress bars on a terminal, one for each label. A full bar disappears."""

    def __init__(self, console: Console) -> None:
        from rich import progress as bars  # noqa: PLC0415  only long work on a terminal needs it

        self._bars = bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(bar_width=20),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TextColumn("elapsed,", style="dim"),
            bars.TimeRemainingColumn(),
            bars.TextColumn("left", style="dim"),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bars.stop()

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Show that ``done`` of ``total`` steps are done."""
        if total is not None and done >= total:
            task = self._tasks.pop(label, None)
            if task is not None:
                self._bars.remove_task(task)
            return
        if label not in self._tasks:
            self._tasks[label] = self._bars.add_task(one_line(label, 40), total=total)
        self._bars.update(self._tasks[label], completed=done, total=total)


@define
class _Work:
    """The progress of one label, and the time of its first report, for an estimate of the time left."""

    label: str
    began: float
    first: int
    done: int = 0
    total: int | None = None

    def words(self, now: float) -> str:
        """``editing: 12/96, about 40 s left``. The first steps include preparations, so they give no estimate."""
        passed, made = now - self.began, self.done - self.first
        if self.total is None:
            return self.label + (f": {self.done}" if self.done else f", {passed:.0f} s" if passed >= 1 else "")
        if made < min(10, self.total / 5):
            return f"{self.label}: {self.done}/{self.total}"
        left = round((self.total - self.done) * passed / made)
        return f"{self.label}: {self.done}/{self.total}, about {f'{left} s' if left < 100 else duration(left)} left"


class LineProgress(Progress):
    """Progress lines for files and pipes: one at the start of each label, and one every 20 s.

    A line names the outermost and the innermost work. Work that ends within ``after`` seconds has no line.
    """

    def __init__(self, console: Console, after: float = 0.0) -> None:
        self._console = console
        self._after = after
        self._start = time.monotonic() + after
        self._open: dict[str, _Work] = {}
        self._seen: set[str] = set()
        self._over = Event()
        self._thread = Thread(target=self._repeat, name="ke-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Store the progress. Write a line for a new label."""
        if total is not None and done >= total:
            self._open.pop(label, None)
            return
        work = self._open.setdefault(label, _Work(one_line(label, 60), time.monotonic(), done))
        work.done, work.total = done, total
        if label not in self._seen and time.monotonic() >= self._start:
            self._seen.add(label)
            self.write()

    def write(self) -> None:
        """Write a line if any work is open and the context is not closed."""
        now, found = time.monotonic(), [*self._open.values()]
        if found and not self._over.is_set():
            words = dict.fromkeys(work.words(now) for work in (found[0], found[-1]))
            self._console.print("; ".join(words), markup=False, soft_wrap=True)

    def _repeat(self) -> None:
        if self._after and not self._over.wait(self._after):
            self.write()
        while not self._over.wait(QUIET_SECONDS):
            self.write()


@contextmanager
def progress(console: Console, after: float = 0.0) -> Iterator[Progress]:
    """Yield progress bars on a terminal, else progress lines, the first one ``after`` so many seconds."""
    with BarProgress(console) if console.is_terminal and not console.quiet else LineProgress(console, after) as shown:
        yield shown
