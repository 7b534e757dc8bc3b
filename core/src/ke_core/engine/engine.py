"""The engine: procedures in, what they return out, with the model asked in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import evolve

from ke_core.data.results import Answer, Failure, Reply
from ke_core.engine.advance import Running, begin, waiting
from ke_core.engine.cache import CompletionCache
from ke_core.engine.serve import Server, Stats
from ke_core.protocols import Ask, LanguageModel, Progress
from ke_core.requests import Procedure

T = TypeVar("T")


class BatchingEngine:
    """Advances procedures together over one model.

    ``seed`` is the run's; with a procedure's id and its call number it seeds sampled requests. ``stats`` says
    how well requests went together.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        seed: int = 0,
        cache: CompletionCache | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.stats = Stats()
        self._seed = seed
        self._progress = progress
        self._server = Server(model=model, cache=cache, stats=self.stats, progress=progress)

    def run(self, procedures: Mapping[str, Procedure[T]]) -> dict[str, T | Failure]:
        """Run each procedure to its end; one that raises becomes a ``Failure``.

        The ids seed sampled requests, so they must not depend on what else is run. Interrupts and errors
        that make every later answer meaningless (``WeightsNotRestored``) are raised.
        """
        return {each.id: each.result for each in self._drive(procedures)}

    def answer(self, solve: Callable[[Any], Procedure[Reply]], asks: Sequence[Ask]) -> list[Reply]:
        """``solve`` each ask, in order; an ``Answer`` comes back with its cost filled in.

        Raises ValueError where two asks share an id: they would share their seeds.
        """
        twice = [name for name, count in Counter(ask.id for ask in asks).items() if count > 1]
        if twice:
            raise ValueError(f"two asks are called {twice[0]!r}")
        return [_with_cost(each) for each in self._drive({ask.id: solve(ask) for ask in asks})]

    def _drive(self, procedures: Mapping[str, Procedure[T]]) -> list[Running[T]]:
        running = begin(procedures, self._seed)
        try:
            while turn := waiting(running):
                results = self._server.serve([each.request for each in turn if each.request is not None])
                for each, result in zip(turn, results, strict=True):
                    each.resume(result)
                if self._progress is not None:
                    self._progress.advance("answers", sum(each.done for each in running), len(running))
        finally:
            for each in running:
                each.procedure.close()
        return running


def _with_cost(each: Running[Reply]) -> Reply:
    reply = each.result
    assert reply is not None, f"procedure {each.id} returned nothing"
    return evolve(reply, cost=each.cost) if isinstance(reply, Answer) else reply
