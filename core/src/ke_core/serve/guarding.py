"""Who may ask, how much, how many at once, and for how long: while the client is there (ASGI, nothing buffered)."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Coroutine
from typing import Any, TypeVar

from attrs import define, field, frozen
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ke_core.serve.wire import BadRequest
from ke_core.web import is_loopback

T = TypeVar("T")
HEALTH = "/health"
PATIENCE = 30.0  # seconds for a request's body to arrive
ENDING = BadRequest(
    "the server is ending, and this answer was not there in time", 503, code="server_ending", kind="server_error"
)
GONE = "the client has gone"


@frozen(kw_only=True)
class Limits:
    """``concurrent``: requests under way at once. ``body``: bytes of a question; ``edits``: of a list of edits."""

    concurrent: int = 64
    body: int = 1 << 20
    edits: int = 32 << 20


@define
class Gate:
    """Lets a request pass, or answers it with the error that stands in its way.

    With a token every route but ``/health`` asks for it. Without one the server is on the loopback interface, and a web
    page in a browser of the same machine must not reach it either: a strange ``Host`` (a name that was made to point
    here) is refused, and so is a body that is not declared as JSON (the only kind that a page may send unasked).
    """

    app: ASGIApp
    token: str
    limits: Limits
    _under_way: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
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

        self._under_way += 1
        try:
            await self.app(scope, receive, sending)
        except asyncio.CancelledError:  # only the end of the server does this, when its time for answers is over
            if not begun:
                await answer(ENDING)(scope, receive, send)
        finally:
            self._under_way -= 1

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
        elif not is_loopback(_name(headers.get("host", ""))):
            raise BadRequest("this server is asked by the name of this machine only: localhost", 403, code="bad_host")
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise BadRequest("send JSON, with Content-Type: application/json", 415, code="bad_content_type")
        if self._under_way >= self.limits.concurrent:
            raise BadRequest(
                f"{self.limits.concurrent} requests are under way, and no more are taken: try again",
                429,
                code="rate_limit_exceeded",
                kind="rate_limit_error",
                retry_after=1,
            )


def answer(error: BadRequest) -> JSONResponse:
    """The error as a response."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.body(), error.status, headers)


async def body_of(request: Request, most: int) -> bytes:
    """The body, read no further than ``most`` bytes and no longer than ``PATIENCE``. Raises BadRequest."""
    too_large = BadRequest(f"the request body is larger than {most} bytes", 413, code="body_too_large")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise too_large
    found = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for piece in request.stream():
                found += piece
                if len(found) > most:
                    raise too_large
    except TimeoutError as error:
        raise BadRequest("the request body did not arrive in time", 408, code="timeout") from error
    except ClientDisconnect as error:
        raise BadRequest(GONE, 400) from error
    return bytes(found)


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` comes to, broken off when the client leaves. The body must have been read. Raises BadRequest."""
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


def _name(host: str) -> str:
    """``localhost:8000`` without its port; an IPv6 address keeps its brackets."""
    return host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
