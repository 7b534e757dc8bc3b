"""Connections: how long a client may take, how many are open at once, and how much is logged about them."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import h11
from attrs import define
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ImportError:  # pragma: no cover  Windows has no such limit
    resource = None  # type: ignore[assignment]

Wait = Literal["head", "rest", "read", "body"]
SECONDS: dict[Wait, float] = {"head": 10.0, "rest": 5.0, "read": 60.0}
"""How long a connection waits for its client: for a request's head, for the rest of a body after the response, and
until the client has read what was sent. The body of a request that is not answered yet has its own timeout.
"""
ORDER: tuple[Wait, ...] = ("head", "rest", "read", "body")
"""Which connections are closed first where there are too many."""
WAITING = 256  # connections beyond those whose requests are answered
BACKLOG = 128  # connections that the system queues until they are accepted
ACCEPTED = 16  # connections accepted before others are read: far fewer than may be open, see `Connection`
BURST, PERIOD = 5, 60.0  # log records of one kind, in that many seconds
UNLIMITED = 1 << 20
RETRY = 1.0  # seconds until asyncio accepts connections again after it ran out of descriptors
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
LOG = logging.getLogger("ke_plugin_serve")
LOGGERS = ("ke_plugin_serve", "uvicorn.error", "asyncio")


class Connection(H11Protocol):
    """uvicorn's connection, closed if its client is too slow or if others need its slot.

    If more than ``most`` are open, the one that has waited longest for its client is closed. New connections are always
    accepted, so a client that sends its request immediately is answered even if many others are silent. asyncio accepts
    up to twice ``ACCEPTED`` connections before it reads from the first, so ``most`` must leave room for them.
    """

    most: ClassVar[int]
    wait: Wait | None = None
    _since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection, and wait for its first request."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most:
            waiting = [one for one in self.connections if isinstance(one, Connection) and one.wait]
            min(waiting, key=Connection.rank).drop()

    def data_received(self, data: bytes) -> None:
        """Read a piece of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the rest of the request, or for the next one."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self._stop()

    def drop(self) -> None:
        """Close the connection now, whatever is unsent."""
        self._stop()
        self.connections.discard(self)  # the transport does that later, and others are counted until then
        self.transport.abort()

    def _watch(self) -> None:
        """Start the timer of what the client is awaited for, unless it runs: more bytes do not prolong it."""
        wait = self._awaited()
        if wait == self.wait:
            return
        self._stop()
        self.wait, self._since = wait, self.loop.time()
        if wait in SECONDS:
            self._timer = self.loop.call_later(SECONDS[wait], self.drop)

    def _awaited(self) -> Wait | None:
        if self.flow.write_paused:
            return "read"
        if self.conn.their_state is h11.IDLE:
            return "head"
        if self.conn.their_state is h11.SEND_BODY:
            return "rest" if self.cycle.response_complete else "body"
        return None

    def rank(self) -> tuple[int, float]:
        """Return a key that sorts connections by how soon they are closed for others."""
        return (ORDER.index(self.wait) if self.wait else len(ORDER)), self._since

    def _stop(self) -> None:
        self.wait = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connection_class(answered: int) -> type[Connection]:
    """Return the class of connections of a server that answers at most ``answered`` requests at once.

    They use at most half of the process's file descriptors. The rest is for accepted connections that are not counted
    yet.
    """

    class Limited(Connection):
        most = min(answered + WAITING, _descriptors() // 2)

    return Limited


def _descriptors() -> int:
    if resource is not None:
        found: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if found != resource.RLIM_INFINITY:
            return found
    return UNLIMITED


@define
class DescriptorGuard:
    """Closes connections when asyncio reports that no descriptor is left, which it does many times in a row."""

    connections: set[Any]
    _last: float = float("-inf")

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error of the event loop. If descriptors are the reason, close the older half of the silent ones."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in NO_DESCRIPTOR):
            loop.default_exception_handler(context)
            return
        if loop.time() - self._last < RETRY / 2:
            return
        self._last = loop.time()
        silent = sorted(
            (one for one in self.connections if isinstance(one, Connection) and one.wait == "head"), key=Connection.rank
        )
        closed = silent[: (len(silent) + 1) // 2]
        for one in closed:
            one.drop()
        LOG.warning("%s: closed %d silent connections. Raise the limit with ulimit -n.", error.strerror, len(closed))


class RateLimit(logging.Filter):
    """Pass at most ``BURST`` records of a kind in ``PERIOD`` seconds.

    Records of one kind come from the same line of code, with the same type of exception.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged. The first one after a pause says how many were not."""
        kind = (record.pathname, record.lineno, record.exc_info and record.exc_info[0])
        now = time.monotonic()
        began, count = self._passed.get(kind, (now, 0))
        if now - began > PERIOD:
            if count > BURST:
                record.msg = f"{record.msg} ({count - BURST} more were not logged)"
            began, count = now, 0
        self._passed[kind] = began, count + 1
        return count < BURST


@contextmanager
def limited_logging() -> Iterator[None]:
    """Limit what the server's loggers write while the context is open: clients cause most of it."""
    limit = RateLimit()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(limit)
    try:
        yield
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(limit)
