"""Limits of requests: host, token, content type, size, and the number answered at once."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from attrs import define, field, frozen
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ke_plugin_serve.wire import BadRequest, host_name, is_loopback

T = TypeVar("T")
HEALTH = "/health"
PATIENCE = 30.0  # seconds for a request's body to arrive
ENDING = BadRequest(
    "the server is shutting down, and the answer was not ready in time", 503, code="server_ending", kind="server_error"
)
GONE = "the client disconnected"


@frozen(kw_only=True)
class Limits:
    """``concurrent``: requests answered at once. ``body``: bytes of a question; ``edits``: of a list of edits."""

    concurrent: int = 64
    body: int = 1 << 20
    edits: int = 32 << 20


@define
class Gate:
    """Admits a request or responds with an error.

    With a token, every route except ``/health`` requires it. Without a token, the server listens on the loopback
    interface and also protects itself from web pages in a local browser: it rejects a ``Host`` other than this machine
    (DNS rebinding), and bodies that are not declared as JSON (which a page can send without a preflight request).
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
        except asyncio.CancelledError:  # only at shutdown, when the time for answers is over
            if not begun:
                await answer(ENDING)(scope, receive, send)

    def _check(self, headers: Headers, method: str) -> None:
        if self.token:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            right = hmac.compare_digest(given.strip().encode("latin-1"), self.token.encode())
            if scheme.lower() != "bearer" or not right:
                raise BadRequest(
                    "a valid bearer token is needed", 401, code="invalid_api_key", kind="authentication_error"
                )
        elif not is_loopback(host_name(headers.get("host", ""))):
            raise BadRequest("unknown host: use localhost", 403, code="bad_host")
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise BadRequest("send JSON, with Content-Type: application/json", 415, code="bad_content_type")


@define
class Intake:
    """Reads request bodies concurrently. A body that is still arriving does not count as an answered request."""

    concurrent: int
    _answered: int = field(default=0, init=False)

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """Read the body, at most ``most`` bytes, and count the request while the context is open. Raises BadRequest."""
        body = await _read(request, most)
        if self._answered >= self.concurrent:
            raise BadRequest(
                f"the server is busy with {self.concurrent} requests: try again",
                429,
                code="rate_limit_exceeded",
                kind="rate_limit_error",
                retry_after=1,
            )
        self._answered += 1
        try:
            yield body
        finally:
            self._answered -= 1


async def _read(request: Request, most: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    found = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for piece in request.stream():
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
    working, disconnecting = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((working, disconnecting), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise BadRequest(GONE, 400)
        return working.result()
    finally:
        working.cancel()
        disconnecting.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass  # an empty rest of the body
