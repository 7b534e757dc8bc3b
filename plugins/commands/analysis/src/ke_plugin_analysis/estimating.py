"""What a judge will send to its model, before it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from attrs import define, evolve, field, frozen

from ke_core.app import BatchingEngine, OpenJudge, Prices, count_noun, judge_items
from ke_core.plugin import Generate, Generated, Item, Session

CHARACTERS = 4
"""Characters in a token of English text, about."""


@define
class CountingModel:
    """A model that collects its requests. Every generated text is empty."""

    id: str
    digest: str
    requests: list[Generate] = field(factory=list)

    def generate(self, requests: Sequence[Generate]) -> list[Generated]:
        """Return an empty text for each request."""
        self.requests += requests
        return [Generated(text="", finish="stop")] * len(requests)


@frozen
class TemporaryCache:
    """The completions of ``cache``, if there is one, and further ones that are not stored in it."""

    cache: Any
    added: dict[str, Any] = field(factory=dict)

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the completions among ``keys``."""
        wanted = set(keys)
        stored = self.cache.get(wanted) if self.cache is not None else {}
        return stored | {key: self.added[key] for key in wanted & self.added.keys()}

    def put(self, completions: Mapping[str, Any]) -> None:
        """Keep completions in memory."""
        self.added.update(completions)


def estimate_words(judge: OpenJudge, items: Sequence[Item], prices: Prices) -> str:
    """Return how many requests the judge will send for ``items``, their tokens, and the cost if prices are known.

    Identical requests are sent once, and requests with a cached completion are not sent. A judge that sends further
    requests about what its model writes sends more.
    """
    session = cast("Session[Any]", judge.session)
    engine = cast("BatchingEngine", session.engine)
    model: Any = CountingModel(id=engine.model.id, digest=engine.model.digest)
    cache: Any = TemporaryCache(engine.cache)
    counting = evolve(engine, model=model, cache=cache, progress=None)
    judge_items(evolve(judge, session=evolve(session, engine=counting)), items)
    read = sum(len(one.prompt) for one in model.requests) // CHARACTERS
    written = sum(one.max_tokens for one in model.requests)
    requests = count_noun(len(model.requests), "request")
    words = f"at least {requests}, about {read:,} prompt tokens and up to {written:,} generated"
    cost = (read * prices.prompt + written * prices.generated) / 1e6
    return f"{words}, which cost up to {cost:.4f}" if cost else words
