"""Threads that wait for a server, and for which nobody has to wait."""

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
    """Submit calls that never raise to so many threads, which end with the context or with the process.

    Those of a ``ThreadPoolExecutor`` are waited for, at the latest by Python's exit. Closing a connection does not wake
    a thread that reads from it, so whoever interrupts a run for the second time would wait for a silent server.
    """
    waiting: SimpleQueue[tuple[Future[Any], Call] | None] = SimpleQueue()

    def submit(call: Call) -> Future[Any]:
        future: Future[Any] = Future()
        waiting.put((future, call))
        return future

    def work() -> None:
        while (item := waiting.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                future.set_result(call())

    for _ in range(threads):
        Thread(target=work, name=NAME, daemon=True).start()
    try:
        yield submit
    finally:
        for _ in range(threads):
            waiting.put(None)
