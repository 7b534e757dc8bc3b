"""A model behind an OpenAI-compatible server: ``LanguageModel`` and ``RemoteModel`` for the engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, Self, TypeVar

from attrs import define, evolve, field

from ke_core.plugin import (
    CONTINUATION_FORMAT,
    Completed,
    Generate,
    Generated,
    KEError,
    ModelRequest,
    ModelUnavailable,
    NextRequests,
    NoLikelihood,
    Score,
    Scored,
    ServerDown,
    ServerFailed,
    ServerRefused,
    digest,
)
from ke_plugin_openai import endpoints
from ke_plugin_openai.adapters import ServerAdapters
from ke_plugin_openai.client import CONNECT, ApiClient, RetryPolicy, ServerUsage
from ke_plugin_openai.endpoints import CHAT, COMPLETIONS
from ke_plugin_openai.faults import Transient, Unreachable
from ke_plugin_openai.workers import workers

UNKNOWN = 10**9
"""Context of a model whose server does not report it. Longer prompts then raise ContextOverflow."""
USUAL, BATCHED = 8, 32  # concurrent requests; the second measured with vLLM (benchmarks/RESULTS.md)
BATCHING = frozenset({"vllm", "sglang"})  # owners of models, in the servers' lists, that decode many requests together
LENGTHS = ("max_model_len", "context_length", "context_window", "max_context_length")
DOWN = 3  # consecutive failed requests after which the rest of the list is not sent
T = TypeVar("T", bound=Generated | Scored)


@define
class Breaker:
    """Stops sending requests if all would fail alike, until one of those under way succeeds."""

    error: ServerFailed | None = None
    _down: int = 0
    _lock: Lock = field(factory=Lock, repr=False)

    def note(self, outcome: object) -> None:
        """Record an outcome."""
        with self._lock:
            if not isinstance(outcome, Exception):
                self.error = None
            self._down = self._down + 1 if isinstance(outcome, ServerDown) and not outcome.busy else 0
            if isinstance(outcome, ServerFailed) and (isinstance(outcome, ServerRefused) or self._down >= DOWN):
                self.error = outcome


@define(eq=False, kw_only=True)
class ApiModel:
    """The model called ``name`` at ``client.url``; ``chat``: through its chat endpoint.

    ``concurrency``: number of requests at once; None: ``USUAL``, or ``BATCHED`` after ``greet``. ``context`` is in
    tokens. ``usage`` counts the requests of this process.
    """

    id: str
    name: str
    client: ApiClient = field(repr=False)
    concurrency: int | None = None
    chat: bool = False
    context: int = UNKNOWN
    _limit: str = "max_tokens"
    _stops: bool = True

    @classmethod
    def open(cls, request: ModelRequest, url: str) -> Self:
        """Create the model without sending anything. Raises ModelUnavailable for an invalid key."""
        name = f"{request.id}@{request.revision}" if request.revision else request.id  # an @ is part of a name here
        client = ApiClient.open(
            url, key_env=request.api_key_env, timeout=request.timeout, concurrency=request.concurrency or BATCHED
        )
        return cls(id=f"openai:{name}", name=name, client=client, concurrency=request.concurrency, chat=request.chat)

    @property
    def digest(self) -> str:
        """Identify the address, the model and the prompt format. The server may change the model behind that name."""
        fields = {"server": self.client.url, "model": self.name, "chat": self.chat}
        return digest(
            fields | ({"instruction": endpoints.instruction(), "read": CONTINUATION_FORMAT} if self.chat else {})
        )[:32]

    @property
    def base_url(self) -> str:
        """The server's address."""
        return self.client.url

    @property
    def usage(self) -> ServerUsage:
        """Usage of the server by this process."""
        return self.client.usage

    @property
    def adapters(self) -> ServerAdapters:
        """The adapters that the server loads at run time."""
        return ServerAdapters(client=self.client)

    def state(self) -> Mapping[str, object]:
        """Return an empty state: the model cannot be changed from here."""
        return {}

    def greet(self) -> None:
        """Request the list of models, which is free, to check the server, the key and the context length.

        Raises ModelUnavailable. A server without a list, or with a broken one, may still be usable.
        """
        try:
            listed = self._listed()
        except Unreachable as error:
            raise ModelUnavailable(error.message, hint="start the server, or correct the base URL") from None
        except ServerRefused as error:
            if error.status != 401:  # 403: the key may be allowed to use models but not to list them
                return
            raise ModelUnavailable(error.message, hint=error.hint) from None
        except (Transient, KEError):
            return
        own = next((one for one in listed if one.get("id") == self.name), {})
        if self.concurrency is None and own.get("owned_by") in BATCHING:
            self.concurrency = BATCHED
        known = [own[length] for length in LENGTHS if isinstance(own.get(length), int) and own[length] > 0]
        self.context = known[0] if known else UNKNOWN

    def describe(self) -> dict[str, str]:
        """Return what is known without costs, label to text. Raises ModelUnavailable like ``greet``."""
        self.greet()
        try:
            names = [self.client.clean(str(one.get("id"))) for one in self._listed()]
            listed = "yes" if self.name in names else f"no; it lists {', '.join(names[:5]) or 'none'}"
        except (Transient, KEError):
            listed = "the server has no list of models"
        return {
            "name": self.id,
            "server": self.client.url,
            "endpoint": CHAT if self.chat else COMPLETIONS,
            "key": self.client.key_words,
            "listed": listed,
            "context": "the server does not report it" if self.context == UNKNOWN else f"{self.context:,} tokens",
            "scores": "none with chat" if self.chat else "checked with one request before a run that needs them",
            "digest": self.digest,
        }

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return one result for each request, in order. An error of one request takes the place of its result."""
        return [_of(Generated, one) for one in self._in_order(requests)]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """Return one result for each request, in order; NoLikelihood if the server returns no log-probabilities of a
        prompt.
        """
        return [_of(Scored, one) for one in self._in_order(requests)]

    def _in_order(self, requests: Sequence[Generate | Score]) -> list[Completed]:
        found = dict[int, Completed]()

        def keep(results: Mapping[int, Completed], _ended: object) -> tuple[()]:
            found.update(results)
            return ()

        self.complete(requests, keep)
        return [found[place] for place in range(len(requests))]

    def limit_retries(self, *, attempts: int, seconds: float) -> None:
        """Try each request at most ``attempts`` times, and wait at most ``seconds`` if the server asks for it."""
        self.client.patience = RetryPolicy(attempts=attempts, total_wait=seconds)

    def complete(self, requests: Sequence[Generate | Score], following: NextRequests) -> None:
        """Pass the result of each request to ``following`` as it arrives, and send what follows (``RemoteModel``)."""
        self.client.resume()
        breaker, open_, places = Breaker(), dict[Future[Completed], int](), count()
        with workers(self.concurrency or USUAL) as submit:
            try:
                while requests or open_:
                    for request in requests:
                        open_[submit(partial(self._one, request, breaker))] = next(places)
                    requests = _passed_on(open_, following, ended=False)
            except BaseException:
                try:
                    self.client.halt()
                    for future in list(open_):
                        if future.cancel():
                            del open_[future]
                    while open_:
                        _passed_on(open_, following, ended=True)  # these are charged
                except BaseException:
                    self.client.close()  # interrupted again: stop waiting
                    raise
                raise

    def _one(self, request: Generate | Score, breaker: Breaker) -> Completed:
        if breaker.error is not None:
            return breaker.error
        try:
            outcome: Completed = self._score(request) if isinstance(request, Score) else self._generate(request)
        except Exception as error:  # noqa: BLE001  every error belongs to this request
            outcome = error
        breaker.note(outcome)
        return outcome

    def _generate(self, request: Generate) -> Generated:
        try:
            return self._sent(request)
        except endpoints.EchoCut as first:
            whole = self._sent(request, again=True)
            read, written = first.prompt_tokens + whole.prompt_tokens, first.tokens + whole.tokens
            return evolve(whole, prompt_tokens=read, tokens=written)

    def _sent(self, request: Generate, *, again: bool = False) -> Generated:
        """Send one request. ``again``: without stop strings, because one cut off the answer."""
        path = CHAT if self.chat else COMPLETIONS
        while True:
            body = endpoints.body(request, chat=self.chat, limit=self._limit, stops=self._stops and not again)
            read = partial(
                endpoints.read, request=request, chat=self.chat, clean=self.client.clean, stops="stop" in body
            )
            try:
                return self.client.ask(path, {"model": self.name, **body}, read, under_way=again)
            except ServerFailed as error:
                if not self._learn(error.message, body):
                    raise

    def _learn(self, message: str, body: Mapping[str, object]) -> bool:
        """Return whether the server needs another name for a field, or rejects it. Later requests follow that."""
        if NEWER in message and NEWER not in body:
            self._limit = NEWER
            return True
        if "stop" in body and NO_STOP.search(message):
            self._stops = False  # they are applied here in any case
            return True
        return False

    def _score(self, request: Score) -> Scored:
        if self.chat:
            raise NoLikelihood("a chat endpoint returns no log-probabilities of a prompt", hint=endpoints.ELSEWHERE)
        return Scored.of(self._scored(prompt, text) for prompt, text in request.pairs)

    def _scored(self, prompt: str, continuation: str) -> tuple[float, int, int | None]:
        fields = {"model": self.name, **endpoints.score_body(prompt, continuation)}
        read = partial(endpoints.read_score, prompt=prompt, continuation=continuation, clean=self.client.clean)
        return self.client.ask(COMPLETIONS, fields, read)

    def _listed(self) -> list[Mapping[str, Any]]:
        data = self.client.once("GET", "/models", patience=CONNECT).get("data")
        return [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []


NEWER = "max_completion_tokens"
NO_STOP = re.compile(r"support.*\bstop\b|\bstop\b.*support", re.IGNORECASE)
AWAKE = 0.05  # seconds; a signal at the start of a wait is handled afterwards


def _passed_on(
    open_: dict[Future[Completed], int], following: NextRequests, *, ended: bool
) -> Sequence[Generate | Score]:
    """Wait a moment for results, pass them on, and return the requests that follow or have arrived.

    A future is removed from ``open_`` when its result is saved.
    """
    done, _others = wait(open_, timeout=AWAKE, return_when=FIRST_COMPLETED)
    more = following({open_[future]: future.result() for future in done}, ended)
    for future in done:
        del open_[future]
    return more


def _of(kind: type[T], outcome: Completed) -> T | Exception:
    assert isinstance(outcome, kind | Exception)
    return outcome
