"""Consoles and progress: results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import click
from rich.console import Console

from ke_core.cli.app import App
from ke_core.results.sanitize import one_line
from ke_core.spec.protocols import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import TaskID

T = TypeVar("T")
WIDTH = 100  # columns of a table that goes to a file or a pipe
QUIET_SECONDS = 20.0  # between two lines of progress where there is no terminal


def out() -> Console:
    """Standard output, for results."""
    return _console(stderr=False)


def err() -> Console:
    """Standard error, for notes and progress. It prints nothing with ``ke --quiet``."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    several = os.environ.get("WORLD_SIZE", "1") != "1"
    follows = several and os.environ.get("RANK", "0") != "0"  # of several processes of a run the first one speaks
    context = click.get_current_context(silent=True)
    app = context.find_object(App) if context and stderr else None
    quiet = follows or (app is not None and app.quiet)
    console = Console(stderr=stderr, highlight=False, soft_wrap=False, quiet=quiet)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = WIDTH
    return console


class BarProgress:
    """One bar a label on a terminal; a bar that is full disappears."""

    def __init__(self, console: Console) -> None:
        from rich.progress import (  # noqa: PLC0415  only long work on a terminal needs it
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left", style="dim"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    @property
    def view(self) -> RenderableType:
        """The bars as they are now, for a larger picture that somebody else keeps fresh."""
        return self._bars

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.stop()

    def track(self, items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
        """``items``, counted as they are taken."""
        return _counted(self, items, label, total)

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Draw ``done`` of ``total``."""
        if total is not None and done >= total:
            task = self._tasks.pop(label, None)
            if task is not None:
                self._bars.remove_task(task)
            return
        if label not in self._tasks:
            self._tasks[label] = self._bars.add_task(one_line(label, 40), total=total)
        self._bars.update(self._tasks[label], completed=done, total=total)


class LineProgress:
    """A line now and then, where standard error is a file or a pipe: the widest work under way, and the step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = time.monotonic()
        self._open: dict[str, str] = {}

    def track(self, items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
        """``items``, counted as they are taken."""
        return _counted(self, items, label, total)

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Write a line if the last one is long ago."""
        said = f"{one_line(label, 60)} {done}" + (f"/{total}" if total is not None else "")
        if total is not None and done >= total:
            self._open.pop(label, None)
        else:
            self._open[label] = said
        now = time.monotonic()
        if now - self._last >= QUIET_SECONDS:
            self._last = now
            widest = next(iter(self._open.values()), said)
            self._console.print(", ".join(dict.fromkeys((widest, said))), markup=False, soft_wrap=True)


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """Progress drawn on ``console`` in the way that suits it."""
    if console.is_terminal and not console.quiet:
        with BarProgress(console) as bars:
            yield bars
    else:
        yield LineProgress(console)


def _counted(to: Progress, items: Iterable[T], label: str, total: int | None) -> Iterable[T]:
    if total is None and isinstance(items, Sized):
        total = len(items)
    done = 0
    to.advance(label, done, total)
    for done, item in enumerate(items, start=1):
        yield item
        to.advance(label, done, total)


__all__ = ["BarProgress", "LineProgress", "err", "out", "progress"]
