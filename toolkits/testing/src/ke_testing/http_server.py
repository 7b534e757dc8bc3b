"""HTTP servers for tests, in a thread and on a free port of this machine."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

PUBLISHED = bytes(range(256)) * 256
PUBLISHED_SHA256 = hashlib.sha256(PUBLISHED).hexdigest()


class QuietHandler(BaseHTTPRequestHandler):
    """Writes nothing to standard error."""

    def log_message(self, *_args: object) -> None:
        """Write nothing."""

    def send(self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class Publisher(QuietHandler):
    """Publishes ``PUBLISHED``, and ``/other``, its reverse. ``/breaks`` stops halfway, ``/plain`` knows no ranges,
    ``/missing`` does not exist. Each request is added to ``seen``: its path and its range.
    """

    def __init__(self, seen: list[tuple[str, str | None]], *args: Any) -> None:
        self.seen = seen
        super().__init__(*args)

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.seen.append((self.path, asked))
        part = asked is not None and self.path != "/plain"
        start = int((asked or "").removeprefix("bytes=").removesuffix("-")) if part else 0
        if self.path == "/missing" or start >= len(PUBLISHED):
            self.send_error(404 if self.path == "/missing" else 416)
            return
        body = (PUBLISHED[::-1] if self.path == "/other" else PUBLISHED)[start:]
        self.send_response(206 if part else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/breaks" and not start else body)


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer requests with ``handler`` until the block ends. Yield the server's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def publisher() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """The address of a server with ``Publisher``, and the requests that it gets."""
    seen: list[tuple[str, str | None]] = []
    with serving(partial(Publisher, seen)) as url:
        yield url, seen
