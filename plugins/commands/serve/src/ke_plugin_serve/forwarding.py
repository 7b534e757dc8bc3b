"""Send a request on to another server, and its response back to the client piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from attrs import frozen
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ke_plugin_serve.replies import AGAIN
from ke_plugin_serve.wire import BadRequest, is_loopback

CONNECT = 10.0  # seconds
ANSWER = 600.0
HEADERS = ("content-type", "retry-after", "cache-control")
"""Headers of a response that the client gets."""


class ForwardedResponse(StreamingResponse):
    """The response of the other server. ``closing`` is closed when it was sent, or when the client disconnects."""

    def __init__(self, response: httpx2.Response, closing: AsyncExitStack) -> None:
        super().__init__(
            response.aiter_bytes(),
            status_code=response.status_code,
            headers={name: response.headers[name] for name in HEADERS if name in response.headers},
        )
        self.closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        async with self.closing:
            await super().__call__(scope, receive, send)


@frozen(kw_only=True)
class Upstream:
    """The server at ``url`` (without ``/v1``). ``timeout``: seconds without any byte after which a request fails.

    A server sends nothing before an answer that is not streamed, so it has at least ``ANSWER`` seconds.
    """

    url: str
    key: str
    timeout: float

    def client(self, concurrent: int) -> httpx2.AsyncClient:
        """Return a client for ``concurrent`` requests at once, to be entered in the event loop."""
        return httpx2.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
            timeout=httpx2.Timeout(self.timeout, connect=CONNECT, read=max(self.timeout, ANSWER), pool=None),
            limits=httpx2.Limits(max_connections=concurrent, max_keepalive_connections=concurrent),
            trust_env=not is_loopback(httpx2.URL(self.url).host),  # a proxy cannot reach this machine
        )


async def send(client: httpx2.AsyncClient, path: str, body: Mapping[str, Any]) -> httpx2.Response:
    """Return the response once its head has arrived; close it after reading. Raises BadRequest without a response."""
    try:
        return await client.send(client.build_request("POST", path, json=body), stream=True)
    except httpx2.ConnectError as error:
        raise BadRequest(
            f"cannot reach {client.base_url}", 503, code="server_busy", kind="server_error", retry_after=AGAIN
        ) from error
    except httpx2.ReadTimeout as error:
        raise BadRequest(
            f"no answer from {client.base_url} in time", 504, code="timeout", kind="server_error"
        ) from error
    except httpx2.HTTPError as error:
        raise BadRequest(
            f"{client.base_url} did not answer: {type(error).__name__}", 502, code="no_answer", kind="server_error"
        ) from error
