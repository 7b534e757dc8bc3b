"""What a judge will send to its model, before it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import define, evolve, field

from ke_core.app import OpenJudge, Prices, count_noun, judge_items
from ke_core.plugin import Engine, Generate, Generated, Item, Procedure, Session

CHARACTERS = 4
"""Characters in a token of English text, about."""


@define
class CountingEngine:
    """Runs procedures without a model and counts what they send. Every generated text is empty."""

    requests: list[Generate] = field(factory=list)

    def run(self, procedures: Mapping[str, Procedure[Any]]) -> dict[str, Any]:
        """Return the result of each procedure."""
        return {name: self._result(procedure) for name, procedure in procedures.items()}

    def _result(self, procedure: Procedure[Any]) -> Any:
        try:
            request = next(procedure)
            while True:
                self.requests.append(cast("Generate", request))
                request = procedure.send(Generated(text="", finish="stop"))
        except StopIteration as end:
            return end.value


def estimate_words(judge: OpenJudge, items: Sequence[Item], prices: Prices) -> str:
    """Return how many requests the judge will send for ``items``, their tokens, and the cost if prices are known.

    A judge that sends further requests about what its model writes sends more.
    """
    engine = CountingEngine()
    session = evolve(cast("Session[Any]", judge.session), engine=cast("Engine", engine))
    judge_items(evolve(judge, session=session), items)
    read = sum(len(one.prompt) for one in engine.requests) // CHARACTERS
    written = sum(one.max_tokens for one in engine.requests)
    requests = count_noun(len(engine.requests), "request")
    words = f"at least {requests}, about {read:,} prompt tokens and up to {written:,} generated"
    cost = (read * prices.prompt + written * prices.generated) / 1e6
    return f"{words}, which cost up to {cost:.4f}" if cost else words
