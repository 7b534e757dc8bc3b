"""The client of ``/edits``, used by ``ke serve edits``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from attrs import field, frozen

from ke_core.plugin import KEError, loads, read_at_most, read_error_body
from ke_plugin_serve.wire import is_loopback

ADDED, REMOVED = ("added", "replaced", "known", "count"), ("removed", "count")
"""The fields of a response to a change."""
PATIENCE = 600.0  # seconds: a long list is embedded before the server answers
LARGEST = 128 << 20  # bytes of an answer: it repeats a list of 32 MiB with ids and sources, and what was replaced


@frozen(kw_only=True)
class ServeClient:
    """``url`` is the server's, with or without ``/v1``; ``token`` is sent if there is one."""

    url: str
    token: str = field(default="", repr=False)

    def add(self, edits: Sequence[Mapping[str, Any]], *, replace: bool = False) -> dict[str, Any]:
        """Add edits: all or none. Raises KEError with the server's error message."""
        return self._send("edits", ADDED, {"edits": list(edits), "replace": replace})

    def remove(self, names: Sequence[str]) -> dict[str, Any]:
        """Remove edits by id or by statement: all or none. Raises KEError."""
        return self._send("edits/remove", REMOVED, {"edits": list(names)})

    def edits(self) -> Iterator[dict[str, str]]:
        """Yield the active edits in order. Raises KEError."""
        offset, count = 0, 1
        while offset < count:
            page = self._send(f"edits?{urlencode({'offset': offset})}", ("data", "count"))
            yield from page["data"]
            offset, count = offset + max(1, len(page["data"])), page["count"]

    def _send(self, path: str, fields: Sequence[str], body: object = None) -> dict[str, Any]:
        """Return the response, which must have ``fields``."""
        base = self.url.rstrip("/").removesuffix("/v1")
        if not _is_http(base):
            raise KEError(f"{self.url} is not a server address", hint="e.g. --url http://127.0.0.1:8000")
        request = Request(f"{base}/{path}", headers={"Content-Type": "application/json"})  # noqa: S310  http(s), see above
        if body is not None:
            request.data = json.dumps(body).encode()
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        local = is_loopback(urlsplit(base).hostname or "")
        around = [ProxyHandler({})] if local else []  # a proxy would look on its own machine
        opener = build_opener(NoRedirects, *around)
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                found = loads(read_at_most(answer, LARGEST))
        except HTTPError as error:
            with error:
                raise KEError(f"error of {base}: {_said(error)}", hint=_hint(error.code)) from error
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", None) or error
            if isinstance(why, TimeoutError) and body is not None:
                raise KEError(
                    f"{base} has not answered for {PATIENCE:.0f} s: it may still be making the change",
                    hint="ke serve edits list shows when it is done",
                ) from error
            raise KEError(
                f"cannot reach {base}: {why}", hint="start ke serve there, or give its address with --url"
            ) from error
        except ValueError as error:
            raise _other_server(base) from error
        if not isinstance(found, dict) or not found.keys() >= set(fields):
            raise _other_server(base)
        return found


class NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the token is for the server that the user named."""

    def redirect_request(self, *_asked: object) -> None:
        """Return no new request, so that urllib raises an HTTPError."""


def _other_server(base: str) -> KEError:
    return KEError(f"{base} is not a ke serve server", hint="give the address of a running ke serve with --url")


def _is_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


def _said(error: HTTPError) -> str:
    try:
        return str(loads(read_error_body(error))["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"


def _hint(status: int) -> str:
    if 300 <= status < 400:
        return "correct --url: redirects are not followed, so that the token is sent only to that server"
    return "set KE_SERVE_TOKEN to the server's token" if status == 401 else ""
