"""Run procedures concurrently and serve their requests in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from attrs import define, evolve, field

from ke_core.engine.cache import CompletionCache
from ke_core.engine.model_requests import ModelRequests
from ke_core.engine.running import Running, failure
from ke_core.spec.errors import PluginBroken
from ke_core.spec.protocols import Exchange, LanguageModel, Progress
from ke_core.spec.requests import EditorRequest, Procedure
from ke_core.spec.results import Answer, Cost, Failure, Reply

T = TypeVar("T")
ASKING = "asking"
"""Label of the progress: answers of a method."""


@define(eq=False)
class BatchingEngine:
    """Advances procedures concurrently over one model.

    ``seed``: the run's seed. With the id of a procedure and the number of its call, it seeds sampled requests.
    ``requests`` counts the requests to the model, and ``hits`` those that the completion cache answered. ``sent`` is
    the cost of the requests that were sent: neither cached nor equal to another one.
    """

    model: LanguageModel
    seed: int = field(default=0, kw_only=True)
    cache: CompletionCache | None = field(default=None, kw_only=True)
    progress: Progress | None = field(default=None, kw_only=True)
    requests: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)
    sent: Cost = field(factory=Cost, init=False)

    def run(self, procedures: Mapping[str, Procedure[T]]) -> dict[str, T | Failure]:
        """Run each procedure to its end. One that raises becomes a ``Failure``.

        The ids seed sampled requests, so they must not depend on the other procedures. Interrupts are raised, and
        errors after which every answer would be meaningless (``WeightsNotRestored``).
        """
        return {name: each.result for name, each in self._run(procedures).items()}

    def answer(self, solve: Callable[[Any], Procedure[Reply]], requests: Sequence[EditorRequest]) -> list[Reply]:
        """Call ``solve`` for each request. Return the replies in order, with the cost of each answer.

        Raises ValueError if two requests have the same id, because they would have the same seed.
        """
        twice = [name for name, count in Counter(request.id for request in requests).items() if count > 1]
        if twice:
            raise ValueError(f"two requests have the id {twice[0]!r}")
        ended = self._run({request.id: solve(request) for request in requests})
        return [_with_cost(each) for each in ended.values()]

    def keep_answering(
        self,
        solve: Callable[[Any], Procedure[Reply]],
        exchange: Exchange,
        canceled: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Answer requests that join those under way, until ``exchange`` returns none and all are answered.

        ``solve`` is called for each request. Two requests under way must not have the same id. ``canceled`` returns the
        ids of requests whose replies nobody needs. They end with a ``Failure``, and a local model stops generating.
        """

        def started(request: EditorRequest) -> Procedure[Reply]:  # an error of ``solve`` is one of this procedure
            return (yield from solve(request))

        self._drive(lambda ended: {
            request.id: started(request) for request in exchange({each.id: _with_cost(each) for each in ended})
        }, canceled)  # fmt: skip

    def _run(self, procedures: Mapping[str, Procedure[Any]]) -> dict[str, Running[Any]]:
        """Run each procedure to its end, and show how many ended."""
        results, waiting = dict[str, Running[Any]](), dict(procedures)

        def exchange(ended: Sequence[Running[Any]]) -> Mapping[str, Procedure[Any]]:
            results.update((each.id, each) for each in ended)
            if self.progress is not None and (ended or waiting):
                self.progress.advance(ASKING, len(results), len(procedures))
            new = dict(waiting)
            waiting.clear()
            return new

        self._drive(exchange)
        return {name: results[name] for name in procedures}

    def _drive(
        self,
        exchange: Callable[[Sequence[Running[Any]]], Mapping[str, Procedure[Any]]],
        canceled: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Run the procedures that ``exchange`` returns by their ids. It gets those that ended since its last call."""
        active: list[Running[Any]] = []

        def joined() -> Sequence[Running[Any]]:
            names = canceled()
            for each in active:
                if each.id in names and not each.done:
                    each.cancel()
            ended = [each for each in active if each.done]
            active[:] = [each for each in active if not each.done]
            new = [Running(id=name, procedure=one, seed=self.seed) for name, one in exchange(ended).items()]
            active.extend(new)
            for each in new:
                each.resume()
            return new

        asked = ModelRequests(model=self.model, cache=self.cache, progress=self.progress, joined=joined)
        try:
            asked.serve()
        finally:
            self.requests, self.hits = self.requests + asked.count, self.hits + asked.hits
            self.sent += asked.sent
            for each in active:
                each.procedure.close()


def _with_cost(each: Running[Reply]) -> Reply:
    reply = each.result
    if reply is None:
        return failure(PluginBroken("the method returned no answer"))
    return evolve(reply, cost=each.cost) if isinstance(reply, Answer) else reply
