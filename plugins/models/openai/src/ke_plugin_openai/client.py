"""JSON over HTTP to one server: retries with backoff, deadlines, and a key that no message shows.

The library is httpx2, which the hub's client and the OpenAI client are themselves built on. The OpenAI client is not
used: it retries on its own terms and parses answers into its own types, and what is wanted here is exactly to say what
a server that is not quite compatible did wrong.
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
from ke_plugin_openai.faults import CHARGED, Transient, Unreachable, fault, fault_in_answer
from ke_plugin_openai.words import quoted, whole

T = TypeVar("T")
LARGEST = 32 * 2**20  # bytes of an answer: a completion is thousands, echoed log-probabilities may be millions
CONNECT = 10.0  # seconds to be let in
INFINITE = float("inf")
USUAL = "OPENAI_API_KEY"
HERE = re.compile(r"https?://(localhost|127\.|\[::1\])")


@frozen(kw_only=True)
class RetryPolicy:
    """``attempts`` that fail, with ``first``, 2 ``first`` ... at most ``most`` seconds in between.

    ``asked``: the longest that a server may put off a request, in all. To be told when to come back, because there are
    too many requests, is no failed attempt: a server that lets in a few a minute is well.
    """

    attempts: int = 7
    first: float = 0.5
    most: float = 30.0
    asked: float = 900.0

    def pause(self, failed: int) -> float:
        """Seconds after so many failed attempts."""
        drawn = random.uniform(0.5, 1)  # noqa: S311  so that requests refused together do not come back together
        return float(min(self.most, self.first * 2 ** (failed - 1)) * drawn)

    def spread(self, left: float) -> float:
        """Seconds on top of the ``left`` ones that all requests wait alike, for the same reason."""
        return random.uniform(0, max(self.first, left / 10))  # noqa: S311


COUNTS = ("requests", "retries", "prompt_tokens", "tokens", "unmetered")


@define
class ServerUsage:
    """What a server was asked in this process: requests answered, tries beyond the first, tokens by its own count.

    An answer that is of no use is one too: it is paid for. ``unmetered`` ones came without a count.
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
        """Add what an answer says it took."""
        read, written = (count(raw.get("usage"), name) for name in ("prompt_tokens", "completion_tokens"))
        self.add(requests=1, prompt_tokens=read, tokens=written, unmetered=int(not (read or written)))

    def counts(self) -> dict[str, int]:
        """All of them, by name."""
        return {name: getattr(self, name) for name in COUNTS}

    def take(self) -> dict[str, int]:
        """The counts since they were last taken: each request is on the record of one run, whoever shares the model."""
        with self._lock:
            now, before = self.counts(), self._taken
            self._taken = now
        return {name: count - before.get(name, 0) for name, count in now.items()}


def key_from(name: str) -> str:
    """The key in the environment variable ``name``, empty where the usual one is not set. Raises ModelUnavailable."""
    if name != USUAL and name not in os.environ:  # it may be the key itself, so it is not shown
        raise ModelUnavailable(
            "--api-key-env names no environment variable that is set",
            hint="export MY_KEY=..., and then --api-key-env MY_KEY: the name, not the key",
        )
    key = os.environ.get(name, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelUnavailable(
            f"what stands in {name} cannot be a key: it holds spaces or control characters",
            hint=f"set {name} to the key alone",
        )
    return key


@define(eq=False, kw_only=True)
class ApiClient:
    """One server, from several threads. Make it with ``open``."""

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
        """Nothing is sent yet. Raises ModelUnavailable for a key that cannot be one, and for an unusable proxy."""
        key = key_from(key_env)
        try:
            http = httpx2.Client(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                trust_env=HERE.match(url) is None,  # a proxy of the environment could not reach this machine
                limits=httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            )
        except (ImportError, ValueError, OSError) as error:
            raise ModelUnavailable(f"the environment's proxy or certificates: {_reason(error)}", hint=PROXY) from None
        made = cls(url=url, key_env=key_env, timeout=timeout, key=key, http=http)
        finalize(made, http.close)  # connections are kept open between requests, and a model is never closed
        return made

    @_quoted.default
    def _find_key(self) -> re.Pattern[str]:
        return quoted(self._key)

    @property
    def key_words(self) -> str:
        """Whether there is a key, for a message."""
        return f"its key is the one in {self.key_env}" if self._key else f"no key was sent: {self.key_env} is not set"

    def clean(self, text: str) -> str:
        """``text`` as it may be shown and kept: see ``words``."""
        return self._quoted.sub(lambda _found: f"[{self.key_env}]", whole(text))

    def halt(self) -> None:
        """Send nothing more and wait for nothing more; what is under way is finished."""
        self._halted.set()

    def resume(self) -> None:
        """Take requests again."""
        self._halted.clear()

    def close(self) -> None:
        """Cut what is under way."""
        self._http.close()

    def ask(
        self, path: str, body: Mapping[str, Any], read: Callable[[dict[str, Any]], T], *, under_way: bool = False
    ) -> T:
        """What ``read`` makes of the answer to a POST; it raises Transient for an answer that has a hole.

        ``under_way``: it completes a request whose first part is paid for, so it is sent though the client is halted.
        Raises KEErrors in one line: ServerFailed after the last try.
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
                    told = f"{trouble.message}, at the last of {sent} tries"
                    raise ServerDown(told, hint="start the same run again later", busy=busy) from None
                self.usage.add(retries=1)

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """An answer, counted: whatever can be made of it, it is paid for."""
        raw = self.once("POST", path, body)
        self.usage.add_answer(raw)
        return raw

    def _wait_turn(self) -> None:
        """Until the server takes requests again, as far as is known: meanwhile it may have put off another one."""
        self._pause(0)
        while (left := self._not_before - monotonic()) > 0:
            self._pause(left + self.patience.spread(left))

    def _put_off(self, wait: float, failed: int, begun: float) -> bool:
        """Wait a while, or have all requests ``wait``, as the server asks; False where it asks for too long."""
        if not wait:
            self._pause(self.patience.pause(failed))
            return True
        until = monotonic() + wait
        if until - begun > self.patience.asked:
            return False
        self._not_before = max(self._not_before, until)
        return True

    def once(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, patience: float = INFINITE
    ) -> dict[str, Any]:
        """The JSON object that one request is answered with.

        A server that is silent for ``patience`` seconds, or ``timeout`` where that is less, is given up, and one whose
        answer is not whole by then, with the next piece of it.
        Raises Transient, or a KEError; neither shows the key.
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
            raise Transient(f"the answer of {self.url} broke off: {self.clean(_reason(error))}") from None
        except (httpx2.InvalidURL, UnicodeError, RuntimeError) as error:
            raise ServerFailed(f"cannot ask {self.url}: {self.clean(_reason(error))}") from None
        if response.status_code != 200:
            raise fault(response.status_code, response.headers, text, key=self.key_words, clean=self.clean)
        try:
            raw = loads(text, surrogates=True)
        except ValueError:
            raise Transient(f"the answer of {self.url} is not JSON: {text[:60]!r}") from None
        if not isinstance(raw, dict):
            raise Transient(f"the answer of {self.url} is not a JSON object")
        if raw.get("error"):  # some servers report errors with status 200
            raise fault_in_answer(raw["error"], text, key=self.key_words, clean=self.clean)
        return raw

    def _read(self, response: httpx2.Response, deadline: float) -> str:
        """The whole body, unless it is endless or dripping: each byte in time says nothing about the last."""
        pieces, size = [], 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise ServerFailed(f"an answer of more than {LARGEST // 2**20} MiB from {self.url}")
            if monotonic() > deadline:
                raise Transient(f"no whole answer within the time limit from {self.url}", tries=CHARGED)
        return self.clean(b"".join(pieces).decode("utf-8", "replace"))

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self._halted.wait(seconds)
        if self._halted.is_set():
            raise Halted


PROXY = "look at HTTPS_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE; a SOCKS proxy wants: pip install 'httpx2[socks]'"


class Halted(KEError):
    """The run was interrupted before this request was sent."""

    def __init__(self) -> None:
        super().__init__("interrupted before it was asked")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
