"""JSON over HTTP to one server: retries with backoff, timeouts, and messages that never show the key.

The library is httpx2, on which the hub's client and the OpenAI client are built too. The OpenAI client is not used,
because it has its own retry rules and parses answers into its own types. This module reports exactly what a partly
compatible server did wrong.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Mapping
from threading import Event, Lock
from time import monotonic
from typing import Any, TypeVar
from weakref import finalize

import httpx2
from attrs import Factory, define, field, frozen

from ke_core.plugin import KEError, ModelUnavailable, ServerDown, ServerFailed, loads
from ke_plugin_openai.endpoints import count
from ke_plugin_openai.faults import CHARGED, Transient, Unreachable, fault, fault_in_answer, quoted, whole

T = TypeVar("T")
LARGEST = (
    32 * 2**20
)  # maximum bytes of an answer: a completion has thousands, echoed log-probabilities may have millions
CONNECT = 10.0  # seconds to connect
INFINITE = float("inf")
DEFAULT_KEY_ENV = "OPENAI_API_KEY"
HERE = re.compile(r"https?://(localhost|127\.|\[::1\])")


@frozen(kw_only=True)
class RetryPolicy:
    """``attempts`` that may fail, with pauses of ``first``, 2 ``first`` ... at most ``most`` seconds.

    ``total_wait``: the total time that a server may delay a request. A delay because of a rate limit is not a failed
    attempt.
    """

    attempts: int = 7
    first: float = 0.5
    most: float = 30.0
    total_wait: float = 900.0

    def pause(self, failed: int) -> float:
        """Return the seconds to wait after that number of failed attempts."""
        drawn = random.uniform(0.5, 1)  # noqa: S311  so that requests refused together do not come back together
        return float(min(self.most, self.first * 2 ** (failed - 1)) * drawn)

    def spread(self, left: float) -> float:
        """Return a random addition to the ``left`` seconds that all requests wait, for the same reason."""
        return random.uniform(0, max(self.first, left / 10))  # noqa: S311


COUNTS = ("requests", "retries", "prompt_tokens", "tokens", "unmetered")


@define
class ServerUsage:
    """Usage of a server by this process: answered requests, retries, and tokens as counted by the server.

    Unusable answers are included, because they are charged. ``unmetered`` answers came without a count.
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    unmetered: int = 0
    _lock: Lock = field(factory=Lock, repr=False, eq=False)
    _taken: dict[str, int] = field(factory=dict, repr=False, eq=False)

    def add(self, **more: int) -> None:
        """Add to the counts, from any thread."""
        with self._lock:
            for name, count in more.items():
                setattr(self, name, getattr(self, name) + count)

    def add_answer(self, raw: Mapping[str, Any]) -> None:
        """Add the usage in an answer."""
        read, written = (count(raw.get("usage"), name) for name in ("prompt_tokens", "completion_tokens"))
        self.add(requests=1, prompt_tokens=read, tokens=written, unmetered=int(not (read or written)))

    def counts(self) -> dict[str, int]:
        """Return all counts by name."""
        return {name: getattr(self, name) for name in COUNTS}

    def take(self) -> dict[str, int]:
        """Return the counts since the last call: each request is recorded in one run even if runs share the model."""
        with self._lock:
            now, before = self.counts(), self._taken
            self._taken = now
        return {name: count - before.get(name, 0) for name, count in now.items()}


def key_from(name: str) -> str:
    """Return the key in the environment variable ``name``, empty if the default one is not set. Raises
    ModelUnavailable.
    """
    if name != DEFAULT_KEY_ENV and name not in os.environ:  # the value may be the key itself, so it is not shown
        raise ModelUnavailable(
            "--api-key-env does not name a set environment variable",
            hint="run export MY_KEY=..., then pass --api-key-env MY_KEY: the name, not the key",
        )
    key = os.environ.get(name, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelUnavailable(
            f"the value of {name} cannot be a key: it contains spaces or control characters",
            hint=f"set {name} to the key only",
        )
    return key


@define(eq=False, kw_only=True)
class ApiClient:
    """One server, usable from several threads. Create it with ``open``."""

    url: str
    key_env: str
    timeout: float
    patience: RetryPolicy = Factory(RetryPolicy)
    usage: ServerUsage = field(factory=ServerUsage)
    _key: str = field(repr=False)
    _quoted: re.Pattern[str] = field(init=False, repr=False)
    _http: httpx2.Client = field(repr=False)
    _halted: Event = field(factory=Event, repr=False)
    _not_before: float = 0.0

    @classmethod
    def open(cls, url: str, *, key_env: str, timeout: float, concurrency: int) -> ApiClient:
        """Create a client without sending anything. Raises ModelUnavailable for an invalid key or an unusable proxy."""
        key = key_from(key_env)
        try:
            http = httpx2.Client(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                trust_env=HERE.match(url) is None,  # a proxy of the environment cannot reach this machine
                limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            )
        except (ImportError, ValueError, OSError) as error:
            raise ModelUnavailable(f"the environment's proxy or certificates: {_reason(error)}", hint=PROXY) from None
        made = cls(url=url, key_env=key_env, timeout=timeout, key=key, http=http)
        finalize(made, http.close)  # connections stay open between requests, and a model is never closed
        return made

    @_quoted.default
    def _find_key(self) -> re.Pattern[str]:
        return quoted(self._key)

    @property
    def key_words(self) -> str:
        """Return whether there is a key, for a message."""
        return f"its key is the one in {self.key_env}" if self._key else f"no key was sent: {self.key_env} is not set"

    def clean(self, text: str) -> str:
        """Return ``text`` without the key; see ``words``."""
        return self._quoted.sub(lambda _found: f"[{self.key_env}]", whole(text))

    def halt(self) -> None:
        """Send nothing more and stop waiting; requests in progress are finished."""
        self._halted.set()

    def resume(self) -> None:
        """Accept requests again."""
        self._halted.clear()

    def close(self) -> None:
        """Cancel requests in progress."""
        self._http.close()

    def ask(
        self, path: str, body: Mapping[str, Any], read: Callable[[dict[str, Any]], T], *, under_way: bool = False
    ) -> T:
        """Return the result of ``read`` for the answer to a POST. ``read`` raises Transient for an incomplete answer.

        ``under_way``: the request completes one whose first part is already charged, so it is sent even if the client
        is halted. Raises one-line KEErrors: ServerFailed after the last try.
        """
        begun, sent, failed = monotonic(), 0, 0
        while True:
            if sent or not under_way:
                self._wait_turn()
            sent += 1
            try:
                return read(self._post(path, body))
            except Transient as trouble:
                failed += not (trouble.busy and trouble.wait)
                last = failed >= min(self.patience.attempts, trouble.tries)
                if last or not self._put_off(trouble.wait, failed, begun):
                    busy = trouble.busy and not trouble.wait
                    message = f"{trouble.message} (last of {sent} tries)"
                    raise ServerDown(message, hint="run the same command again later", busy=busy) from None
                self.usage.add(retries=1)

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and count the answer, even if it is unusable."""
        raw = self.once("POST", path, body)
        self.usage.add_answer(raw)
        return raw

    def _wait_turn(self) -> None:
        """Wait until the server accepts requests again, as far as is known. Other requests may extend the wait."""
        self._pause(0)
        while (left := self._not_before - monotonic()) > 0:
            self._pause(left + self.patience.spread(left))

    def _put_off(self, wait: float, failed: int, begun: float) -> bool:
        """Wait, or make all requests ``wait``, as the server asks. Return False if it asks for too long."""
        if not wait:
            self._pause(self.patience.pause(failed))
            return True
        until = monotonic() + wait
        if until - begun > self.patience.total_wait:
            return False
        self._not_before = max(self._not_before, until)
        return True

    def once(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, patience: float = INFINITE
    ) -> dict[str, Any]:
        """Return the JSON object that answers one request. Raises like ``send``."""
        text = self.send(method, path, body, patience=patience)
        try:
            raw = loads(text, surrogates=True)
        except ValueError:
            raise Transient(f"the answer of {self.url} is not JSON: {text[:60]!r}", tries=CHARGED) from None
        if not isinstance(raw, dict):
            raise Transient(f"the answer of {self.url} is not a JSON object", tries=CHARGED)
        if raw.get("error"):  # some servers report errors with status 200
            raise fault_in_answer(raw["error"], text, key=self.key_words, clean=self.clean)
        return raw

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, patience: float = INFINITE) -> str:
        """Return the text that answers one request with status 200.

        The request fails if the server sends nothing for ``patience`` seconds (or ``timeout`` if shorter), or if the
        answer is not complete by then. Raises Transient or a KEError; neither shows the key.
        """
        within = min(self.timeout, patience)
        deadline = monotonic() + within
        limits = httpx2.Timeout(within, connect=min(CONNECT, within))
        try:
            with self._http.stream(method, f"{self.url}{path}", json=body, timeout=limits) as response:
                text = self._read(response, deadline)
        except httpx2.ConnectTimeout:
            raise Unreachable(f"cannot reach {self.url} within {min(CONNECT, within):g} s") from None
        except httpx2.TimeoutException:
            raise Transient(f"no answer within {within:g} s from {self.url}", tries=CHARGED) from None
        except httpx2.ConnectError as error:
            raise Unreachable(f"cannot reach {self.url}: {self.clean(_reason(error))}") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            message = f"the answer of {self.url} was cut off: {self.clean(_reason(error))}"
            raise Transient(message, tries=CHARGED) from None
        except (httpx2.InvalidURL, UnicodeError, RuntimeError) as error:
            raise ServerFailed(f"cannot send a request to {self.url}: {self.clean(_reason(error))}") from None
        if response.status_code != 200:
            raise fault(response.status_code, response.headers, text, key=self.key_words, clean=self.clean)
        return text

    def _read(self, response: httpx2.Response, deadline: float) -> str:
        """Read the whole body, unless it is too large or too slow: receiving bytes does not mean that it ends."""
        pieces, size = [], 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise ServerFailed(f"an answer larger than {LARGEST // 2**20} MiB from {self.url}")
            if monotonic() > deadline:
                raise Transient(f"no complete answer within the time limit from {self.url}", tries=CHARGED)
        return self.clean(b"".join(pieces).decode("utf-8", "replace"))

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self._halted.wait(seconds)
        if self._halted.is_set():
            raise Halted


PROXY = "check HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE; a SOCKS proxy needs: pip install 'httpx2[socks]'"


class Halted(KEError):
    """The run was interrupted before this request was sent."""

    def __init__(self) -> None:
        super().__init__("interrupted before this request was sent")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
