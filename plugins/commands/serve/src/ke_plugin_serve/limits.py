"""Limits of requests: host, token, content type, size, and the number answered at once."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from attrs import define, field, frozen
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ke_plugin_serve.hosts import host_name, is_loopback
from ke_plugin_serve.wire import BadRequest

T = TypeVar("T")
HEALTH = "/health"
PATIENCE = 30.0  # seconds for a request's body to arrive
LARGE = 4  # bodies larger than a question's, read or handled at once
ENDING = BadRequest(
    "the server is ending, and this answer was not there in time", 503, code="server_ending", kind="server_error"
)
GONE = "the client has gone"


@frozen(kw_only=True)
class Limits:
    """``concurrent``: requests answered at once. ``body``: bytes of a question; ``edits``: of a list of edits."""

    concurrent: int = 64
    body: int = 1 << 20
    edits: int = 32 << 20


@define
class Gate:
    """Admits a request or responds with an error.

    With a token every route but ``/health`` needs it. Without one the server is on the loopback interface, and a web
    page in a browser of the same machine must not reach it either: a ``Host`` that is not this machine (a name that was
    made to point here) is refused, and so is a body that is not declared as JSON (the only kind that a page may send
    without asking first).
    """

    app: ASGIApp
    token: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] == HEALTH:
            await self.app(scope, receive, send)
            return
        try:
            self._check(Headers(scope=scope), scope["method"])
        except BadRequest as error:
            await answer(error)(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except asyncio.CancelledError:  # only the end of the server does this, when its time for answers is over
            if not begun:
                await answer(ENDING)(scope, receive, send)

    def _check(self, headers: Headers, method: str) -> None:
        if self.token:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            right = hmac.compare_digest(given.strip().encode("latin-1"), self.token.encode())
            if scheme.lower() != "bearer" or not right:
                raise BadRequest(
                    "a bearer token is needed, and this is not it",
                    401,
                    code="invalid_api_key",
                    kind="authentication_error",
                )
        elif not is_loopback(host_name(headers.get("host", ""))):
            raise BadRequest("unknown host: use localhost", 403, code="bad_host")
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise BadRequest("send JSON, with Content-Type: application/json", 415, code="bad_content_type")


@define
class Slots:
    """A limited number of slots."""

    most: int
    of: str
    taken: int = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place while the context is open. Raises BadRequest if none is free."""
        if self.taken >= self.most:
            raise BadRequest(
                f"the server is busy with {self.most} {self.of}: try again",
                429,
                code="rate_limit_exceeded",
                kind="rate_limit_error",
                retry_after=1,
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


@define
class Intake:
    """Reads request bodies concurrently. A body that is still arriving does not count as an answered request.

    Bodies up to ``limits.body`` are bounded in number by the connections, larger ones by ``LARGE``.
    """

    limits: Limits
    _answered: Slots = field(init=False)
    _large: Slots = field(init=False)

    @_answered.default
    def _answered_at_once(self) -> Slots:
        return Slots(self.limits.concurrent, "requests")

    @_large.default
    def _large_at_once(self) -> Slots:
        return Slots(LARGE, "large request bodies")

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Read the body, at most ``most`` bytes, and count the request while the context is open. Raises BadRequest."""
        with ExitStack() as places:
            body = await self._read(request, most, places)
            places.enter_context(self._answered.one())
            yield body

    async def _read(self, request: Request, most: int, places: ExitStack) -> bytes:
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > most:
            raise _too_large(most)
        found = bytearray()
        try:
            async with asyncio.timeout(PATIENCE):
                async for piece in request.stream():
                    if len(found) <= self.limits.body < len(found) + len(piece):
                        places.enter_context(self._large.one())
                    found += piece
                    if len(found) > most:
                        raise _too_large(most)
        except TimeoutError as error:
            raise BadRequest("the request body did not arrive in time", 408, code="timeout") from error
        except ClientDisconnect as error:
            raise BadRequest(GONE, 400) from error
        return bytes(found)


def _too_large(most: int) -> BadRequest:
    return BadRequest(f"the request body is larger than {most} bytes", 413, code="body_too_large")


def answer(error: BadRequest) -> JSONResponse:
    """Return the error as a response."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.body(), error.status, headers)


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``; cancel it if the client disconnects. The body must be read. Raises BadRequest."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise BadRequest(GONE, 400)
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # an empty rest of the body
