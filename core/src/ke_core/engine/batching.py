"""Run procedures concurrently and serve their requests in batches."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import count, islice
from typing import Any, Generic, TypeVar

from attrs import define, evolve, field

from ke_core.engine.cache import Completion, CompletionCache, key_of
from ke_core.spec.codec import canonical
from ke_core.spec.errors import ProcessLost, TooManyFailures, WeightsNotRestored
from ke_core.spec.protocols import LanguageModel, Progress, RemoteModel, ReportsProgress
from ke_core.spec.requests import Ask, Embed, Generate, Generated, Nearest, Procedure, Request, Score
from ke_core.spec.results import Answer, Cost, Failure, Reply, Scored

T = TypeVar("T")
SLICE = 512
"""Requests that the model gets at once. A killed run loses at most that many completions of a local model."""
ASKING, REQUESTS = "asking", "model requests"
"""Labels of the progress: answers of a method, and the requests to the model that they need."""
NOT_AN_ANSWER = (WeightsNotRestored, TooManyFailures, ProcessLost)
"""Errors that end the run, because later answers would be meaningless."""


@define
class Running(Generic[T]):
    """A running procedure, its pending request, and its cost so far."""

    id: str
    procedure: Procedure[T]
    seed: int
    request: Request | None = None
    result: T | Failure | Any = None
    done: bool = False
    calls: int = 0
    cost: Cost = field(factory=Cost)

    def resume(self, outcome: object = None) -> None:
        """Send the result of the pending request, if there is one, or raise its exception inside the procedure."""
        if isinstance(self.request, Generate | Score):
            self.cost = _add(self.cost, outcome)
        try:
            if isinstance(outcome, Exception):
                asked: object = self.procedure.throw(outcome)
            else:
                asked = self.procedure.send(outcome)
            while not isinstance(asked, Generate | Score | Embed | Nearest):
                asked = self.procedure.throw(TypeError(f"a procedure yielded {asked!r}, which is not a request"))
            self.request = self._seeded(asked)
        except StopIteration as end:
            self.result, self.request, self.done = end.value, None, True
        except NOT_AN_ANSWER:
            raise
        except Exception as error:  # noqa: BLE001  an error of one procedure fails one reply only
            self.result, self.request, self.done = failure(error), None, True

    def _seeded(self, request: Request) -> Request:
        if not isinstance(request, Generate):
            return request
        number, self.calls = self.calls, self.calls + 1
        if request.temperature > 0 and request.seed is None:
            return evolve(request, seed=call_seed(self.seed, self.id, number))
        return request


def call_seed(seed: int, procedure: str, call: int) -> int:
    """Return the seed of a sampled request: 64 bits that do not depend on the batch."""
    return int.from_bytes(hashlib.sha256(canonical([seed, procedure, call]).encode()).digest()[:8], "big")


def failure(error: Exception) -> Failure:
    """Return an exception as a reply: its class, and its message in one line."""
    return Failure(error=type(error).__name__, message=" ".join(str(error).split()))


def _waiting(running: Sequence[Running[Any]]) -> list[Running[Any]]:
    """Select the procedures whose requests are served next.

    Retrieval comes first. The procedures that it unblocks need the model next, so model batches are as large as
    possible.
    """
    live = [each for each in running if not each.done]
    return [each for each in live if isinstance(each.request, Embed | Nearest)] or live


def _add(cost: Cost, outcome: object) -> Cost:
    written = outcome if isinstance(outcome, Generated) else Generated(text="", finish="stop")
    return cost + Cost(calls=1, prompt_tokens=written.prompt_tokens, tokens=written.tokens)


@define(eq=False)
class BatchingEngine:
    """Advances procedures concurrently over one model.

    ``seed``: the run's seed. With the id of a procedure and the number of its call, it seeds sampled requests.
    ``requests`` counts the requests to the model, ``waves`` their batches, and ``hits`` those that the completion cache
    answered.
    """

    model: LanguageModel
    seed: int = field(default=0, kw_only=True)
    cache: CompletionCache | None = field(default=None, kw_only=True)
    progress: Progress | None = field(default=None, kw_only=True)
    requests: int = field(default=0, init=False)
    waves: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

    @property
    def mean_wave(self) -> float:
        """The average number of requests that were served together; 0 before the first."""
        return self.requests / self.waves if self.waves else 0.0

    def run(self, procedures: Mapping[str, Procedure[T]]) -> dict[str, T | Failure]:
        """Run each procedure to its end. One that raises becomes a ``Failure``.

        The ids seed sampled requests, so they must not depend on the other procedures. Interrupts are raised, and
        errors after which every answer would be meaningless (``WeightsNotRestored``).
        """
        return {each.id: each.result for each in self._drive(procedures)}

    def answer(self, solve: Callable[[Any], Procedure[Reply]], asks: Sequence[Ask]) -> list[Reply]:
        """Call ``solve`` for each request. Return the replies in order, with the cost of each answer.

        Raises ValueError if two requests have the same id, because they would have the same seed.
        """
        twice = [name for name, count in Counter(ask.id for ask in asks).items() if count > 1]
        if twice:
            raise ValueError(f"two requests have the id {twice[0]!r}")
        return [_with_cost(each) for each in self._drive({ask.id: solve(ask) for ask in asks})]

    def _drive(self, procedures: Mapping[str, Procedure[T]]) -> list[Running[T]]:
        running = [Running(id=name, procedure=one, seed=self.seed) for name, one in procedures.items()]
        progress = self.progress if running else None
        try:
            for each in running:
                each.resume()
            if progress is not None:
                progress.advance(ASKING, 0, len(running))
            while turn := _waiting(running):
                results = self._serve([each.request for each in turn if each.request is not None])
                for each, result in zip(turn, results, strict=True):
                    each.resume(result)
                if progress is not None:
                    progress.advance(ASKING, sum(each.done for each in running), len(running))
        finally:
            for each in running:
                each.procedure.close()
        return running

    def _serve(self, requests: Sequence[Request]) -> list[Any]:
        """Return one result per request."""
        results: list[Any] = [None] * len(requests)
        by_kind: dict[type[Request], Callable[[Any], list[Any]]] = {
            Embed: _embed,
            Nearest: _nearest,
            Generate: self._complete,
            Score: self._score,
        }
        for kind, serve in by_kind.items():
            places = [place for place, request in enumerate(requests) if isinstance(request, kind)]
            if places:
                _put(results, places, serve([requests[place] for place in places]))
        return results

    def _score(self, requests: Sequence[Score]) -> list[Any]:
        """Split scores for a server: one request per continuation, because each is charged and cached separately."""
        if not isinstance(self.model, RemoteModel):
            return self._complete(requests)
        parts = [Score(prompt=prompt, continuations=(text,)) for one in requests for prompt, text in one.pairs]
        rest = iter(self._complete(parts))
        return [_joined(list(islice(rest, len(request.continuations)))) for request in requests]

    def _complete(self, requests: Sequence[Generate | Score]) -> list[Any]:
        """Return results from the cache or from the model. Equal requests are sent once."""
        model = self.model.digest  # read for each wave: an edit may have changed it
        keys = [key_of(model, request) for request in requests]
        distinct = dict(zip(keys, requests, strict=True))
        known: dict[str, Any] = {} if self.cache is None else dict(self.cache.get(distinct))
        self.requests += len(requests)
        self.waves += 1
        self.hits += sum(key in known for key in keys)
        missing = [key for key in distinct if key not in known]
        for start in range(0, len(missing), SLICE):
            some = missing[start : start + SLICE]
            asked = [distinct[key] for key in some]
            advance = self._counter(start, len(missing))
            advance(0)
            if isinstance(self.model, RemoteModel):
                known |= self._each(self.model, some, asked, advance)
            else:
                if isinstance(self.model, ReportsProgress):
                    self.model.on_progress = advance
                ask = self.model.score if isinstance(asked[0], Score) else self.model.generate
                fresh = dict(zip(some, _guarded(ask, asked), strict=True))
                if self.cache is not None:
                    self.cache.put({key: result for key, result in fresh.items() if not isinstance(result, Exception)})
                known |= fresh
            advance(len(some))
        return [known[key] for key in keys]

    def _counter(self, start: int, total: int) -> Callable[[int], None]:
        """Return a function that shows how many requests of a slice are finished, ``start`` of ``total`` before it."""

        def advance(done: int) -> None:
            if self.progress is not None:
                self.progress.advance(REQUESTS, start + done, total)

        return advance

    def _each(
        self, model: RemoteModel, keys: Sequence[str], asked: Sequence[Generate | Score], advance: Callable[[int], None]
    ) -> dict[str, Completion | Exception]:
        """Return results from a server. Each completion is cached as it arrives, so none is paid for twice after
        a kill.

        Errors of the cache are raised, because they do not belong to a single request.
        """
        kept = count(1)

        def keep(place: int, completion: Completion) -> None:
            if self.cache is not None:
                self.cache.put({keys[place]: completion})
            advance(next(kept))

        return dict(zip(keys, model.complete(asked, keep), strict=True))


def _joined(parts: Sequence[Scored | Exception]) -> Scored | Exception:
    """Join the scores of a request's continuations. The error of one is the error of the request."""
    scored = list[Scored]()
    for part in parts:
        if isinstance(part, Exception):
            return part
        scored.append(part)
    return Scored.of(pair for part in scored for pair in part.parts)


def _embed(requests: Sequence[Embed]) -> list[Any]:
    """Embed all texts of one encoder in one call. Each request gets its rows."""

    def together(group: Sequence[Embed]) -> list[Any]:
        vectors = group[0].encoder.embed([text for request in group for text in request.texts])
        ends, end = [], 0
        for request in group:
            end += len(request.texts)
            ends.append(end)
        return [vectors[end - len(request.texts) : end] for request, end in zip(group, ends, strict=True)]

    return _grouped(requests, lambda request: id(request.encoder), together)


def _nearest(requests: Sequence[Nearest]) -> list[Any]:
    """Search one memory for all requests in one call."""

    def together(group: Sequence[Nearest]) -> list[Any]:
        first = group[0]
        return first.memory.search([r.text for r in group], k=first.k, hidden=[r.hidden for r in group])

    return _grouped(requests, lambda request: (id(request.memory), request.k), together)


def _grouped(
    requests: Sequence[T], key: Callable[[T], Hashable], together: Callable[[Sequence[T]], list[Any]]
) -> list[Any]:
    groups: dict[Hashable, list[int]] = {}
    for place, request in enumerate(requests):
        groups.setdefault(key(request), []).append(place)
    results: list[Any] = [None] * len(requests)
    for places in groups.values():
        _put(results, places, _guarded(together, [requests[place] for place in places]))
    return results


def _put(results: list[Any], places: Sequence[int], found: Sequence[Any]) -> None:
    for place, result in zip(places, found, strict=True):
        results[place] = result


def _guarded(call: Callable[[Any], Sequence[Any]], requests: Sequence[Any]) -> Sequence[Any]:
    """Return what ``call`` returns. If it raises, each of its requests fails."""
    try:
        return call(requests)
    except NOT_AN_ANSWER:
        raise
    except Exception as error:  # noqa: BLE001  raised inside each procedure: a dead server, an error of a method's memory
        return [error] * len(requests)


def _with_cost(each: Running[Reply]) -> Reply:
    reply = each.result
    assert reply is not None, f"procedure {each.id} returned nothing"
    return evolve(reply, cost=each.cost) if isinstance(reply, Answer) else reply
