"""Threads that wait for a server without blocking the exit of the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any

Call = Callable[[], Any]
NAME = "ke-api"


@contextmanager
def workers(threads: int) -> Iterator[Callable[[Call], Future[Any]]]:
    """Return a function that runs calls in daemon threads, which end with the context or with the process.

    A call starts a thread if there are fewer than ``threads``.

    A ``ThreadPoolExecutor`` joins its threads at Python's exit at the latest. Closing a connection does not
    wake such a thread, so a second interrupt would wait for a silent server.
    """
    waiting: SimpleQueue[tuple[Future[Any], Call] | None] = SimpleQueue()
    started: list[Thread] = []

    def submit(call: Call) -> Future[Any]:
        if len(started) < threads:
            thread = Thread(target=work, name=NAME, daemon=True)
            thread.start()
            started.append(thread)
        future: Future[Any] = Future()
        waiting.put((future, call))
        return future

    def work() -> None:
        while (item := waiting.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                future.set_result(call())

    try:
        yield submit
    finally:
        for _thread in started:
            waiting.put(None)
