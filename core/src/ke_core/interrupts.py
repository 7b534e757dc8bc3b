"""Delay Ctrl-C while a model is being changed or restored.

Python runs signal handlers between two instructions of the main thread. KeyboardInterrupt can therefore be raised
half-way through a loop that restores weights, and even before the first line of ``__exit__``. While a context of this
module is open, a handler of this module is installed in front of the previous one. It looks at the call stack: inside
code that must finish, the signal waits until that code returns; anywhere else it is passed on at once. No interrupt is
lost, and none is raised while a model is half changed.

Python delivers signals to the main thread only. Contexts that are opened in other threads install no handler.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from types import CodeType, FrameType, TracebackType
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from attrs import define, field

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FILES = frozenset(
    function.__code__.co_filename
    for function in (
        lambda: None,  # this file
        contextlib.contextmanager,  # between two lines of it, a context is open but not yet assigned
        WeakKeyDictionary.__init__,  # Python ignores exceptions in the callback of a weak reference
        WeakSet.__init__,
    )
)
"""In code of these files, no interrupt is raised."""

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Handler = Callable[[int, FrameType | None], Any]


@define(eq=False, weakref_slot=True)
class _Open:
    """Marks a context that is open. If a context is deleted without being closed, its mark is deleted too."""


@define(eq=False, repr=False)
class _Signals:
    """The handlers of this process. ``waiting``: signals that have not been passed on."""

    contexts: WeakSet[_Open] = field(factory=WeakSet)
    previous: dict[int, Handler] = field(factory=dict)
    waiting: list[int] = field(factory=list)
    unfinished: set[CodeType] = field(factory=set)

    def open(self) -> _Open:
        """Install the handler in front of every other one, unless it is installed. Return the mark for ``close``.

        Each context checks, because another library may have installed a handler in the meantime.
        """
        mark = _Open()
        if _in_main_thread():
            for number in SIGNALS:
                found = signal.getsignal(number)
                if callable(found) and found != self.handle:
                    self.previous[number] = found
                    signal.signal(number, self.handle)
            self.contexts.add(mark)
        return mark

    def close(self, mark: _Open) -> None:
        """Install the previous handlers again when no context is open; a handler that was installed later stays."""
        self.contexts.discard(mark)
        if _in_main_thread() and not self.contexts:
            for number, handler in self.previous.items():
                if signal.getsignal(number) == self.handle:
                    signal.signal(number, handler)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on, or let it wait."""
        if (frame is not None and frame.f_code.co_filename in FILES) or self._is_unfinished(frame):
            self.waiting.append(number)
        else:
            self.previous[number](number, frame)

    def pass_on(self, caller: FrameType | None) -> None:
        """Pass on a signal that waits, unless a function that called this one must finish first."""
        if self.waiting and _in_main_thread() and not self._is_unfinished(caller):
            number = self.waiting[0]
            self.waiting.clear()
            self.previous[number](number, caller)

    def finish(self, mark: _Open, caller: FrameType | None) -> None:
        """Close a context, and pass on a signal that waits, also if a second one is raised in between."""
        try:
            self.close(mark)
        finally:  # otherwise the first signal would wait for the next context, and be raised there
            self.pass_on(caller)

    def _is_unfinished(self, frame: FrameType | None) -> bool:
        while frame is not None and frame.f_code not in self.unfinished:
            frame = frame.f_back
        return frame is not None


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


_signals = _Signals()


def uninterruptible(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a short function that runs to its end; an interrupt is raised when it returns."""

    @wraps(function)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        mark = _signals.open()
        try:
            return function(*args, **kwargs)
        finally:
            _signals.finish(mark, sys._getframe().f_back)  # noqa: SLF001  the one way to know the caller

    _signals.unfinished.add(whole.__code__)  # type: ignore[attr-defined]  # mypy takes functools.wraps for a class
    return whole


class UninterruptibleContext(contextlib.AbstractContextManager[T_co], Generic[T_co]):
    """A context that no interrupt leaves half open or half closed. Its body can be interrupted.

    An interrupt that comes while it opens closes it again. One that comes while it closes is raised by ``__exit__``.
    """

    @abstractmethod
    def _begin(self) -> T_co:
        """Make the change. Return the value of the ``with`` statement."""

    @abstractmethod
    def _end(self, error: BaseException | None) -> bool | None:
        """Undo the change, also after ``error``. Return true if the error is handled."""

    def __enter__(self) -> T_co:
        value = self._enter()
        try:
            _signals.pass_on(sys._getframe().f_back)  # noqa: SLF001  the one way to know the caller
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return value

    def _enter(self) -> T_co:
        self._mark = _signals.open()
        try:
            return self._begin()
        except BaseException:
            _signals.finish(self._mark, sys._getframe(1).f_back)  # noqa: SLF001  as above
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return self._end(error)
        finally:
            _signals.finish(self._mark, sys._getframe().f_back)  # noqa: SLF001  as above


_signals.unfinished |= {UninterruptibleContext._enter.__code__, UninterruptibleContext.__exit__.__code__}  # noqa: SLF001  its own


def uninterruptible_context(function: Callable[P, Iterator[T]]) -> Callable[P, contextlib.AbstractContextManager[T]]:
    """``contextlib.contextmanager`` for a short context that changes the model: it opens and closes without interrupt.

    Do not do long work before or after the ``yield``: Ctrl-C waits for it.
    """
    made = contextlib.contextmanager(function)

    @wraps(function)
    def context(*args: P.args, **kwargs: P.kwargs) -> contextlib.AbstractContextManager[T]:
        return _Generated(made(*args, **kwargs))

    return context


@define(eq=False)
class _Generated(UninterruptibleContext[T]):
    """A context made of a generator."""

    _inner: contextlib.AbstractContextManager[T]

    def _begin(self) -> T:
        return self._inner.__enter__()

    def _end(self, error: BaseException | None) -> bool | None:
        return self._inner.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
