"""Limits of connections: how long a client may take, and how many connections are open at once."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

Wait = Literal["head", "rest", "read", "body"]
SECONDS: dict[Wait, float] = {"head": 10.0, "rest": 5.0, "read": 60.0}
"""How long a connection waits for its client: for a request's head, for the rest of a body after the response, and
until the client has read what was sent. The body of a request that is not answered yet has its own timeout.
"""
ORDER: tuple[Wait, ...] = ("head", "rest", "read", "body")
"""The order in which connections are closed if there are too many."""
WAITING = 256  # connections beyond those whose requests are answered
BACKLOG = 64  # connections that the system queues until they are accepted


class Connection(H11Protocol):
    """uvicorn's connection, closed if its client is too slow or if others need its slot.

    If more than ``most`` are open, the one that has waited longest for its client is closed. New connections are always
    accepted, so a client that sends its request immediately is answered even if many others are silent. asyncio accepts
    up to twice ``BACKLOG`` connections before it reads from the first, so ``most`` must leave room for them.
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
        """Continue after the client has read."""
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self._stop()

    def drop(self) -> None:
        """Close the connection now, even with unsent data."""
        self._stop()
        self.connections.discard(self)  # the transport does that only later
        self.transport.abort()

    def _watch(self) -> None:
        """Start the timer for what the connection waits for, unless it is running: further bytes do not extend it."""
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
    """Return the class of connections of a server that answers at most ``answered`` requests at once."""

    class Limited(Connection):
        most = answered + WAITING

    return Limited
