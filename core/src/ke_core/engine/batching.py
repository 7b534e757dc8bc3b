"""Run procedures concurrently and serve their requests in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import define, evolve, field

from ke_core.engine.cache import CompletionCache
from ke_core.engine.model_requests import ModelRequests
from ke_core.engine.running import Running
from ke_core.spec.protocols import LanguageModel, Progress
from ke_core.spec.requests import Ask, Procedure
from ke_core.spec.results import Answer, Failure, Reply

T = TypeVar("T")
ASKING = "asking"
"""Label of the progress: answers of a method."""


@define(eq=False)
class BatchingEngine:
    """Advances procedures concurrently over one model.

    ``seed``: the run's seed. With the id of a procedure and the number of its call, it seeds sampled requests.
    ``requests`` counts the requests to the model, and ``hits`` those that the completion cache answered.
    """

    model: LanguageModel
    seed: int = field(default=0, kw_only=True)
    cache: CompletionCache | None = field(default=None, kw_only=True)
    progress: Progress | None = field(default=None, kw_only=True)
    requests: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

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

        def report() -> None:
            if self.progress is not None and running:
                self.progress.advance(ASKING, sum(each.done for each in running), len(running))

        asked = ModelRequests(model=self.model, cache=self.cache, progress=self.progress, report=report)
        try:
            for each in running:
                each.resume()
            report()
            asked.serve(running)
        finally:
            self.requests, self.hits = self.requests + asked.count, self.hits + asked.hits
            for each in running:
                each.procedure.close()
        return running


def _with_cost(each: Running[Reply]) -> Reply:
    reply = each.result
    assert reply is not None, f"procedure {each.id} returned nothing"
    return evolve(reply, cost=each.cost) if isinstance(reply, Answer) else reply
