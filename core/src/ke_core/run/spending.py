"""What a run asks of a model's server, for its record: what is paid for, by every process that works on it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from attrs import frozen

from ke_core.data.records import Usage


@frozen(kw_only=True)
class Prices:
    """Of a million prompt tokens and of a million generated ones; 0 where nobody has said one."""

    prompt: float = 0.0
    generated: float = 0.0


FREE = Prices()


def since_last(model: object, prices: Prices) -> tuple[Usage, ...]:
    """What ``model``'s server was asked since the last time; nothing for a model that is loaded here."""
    usage: Any = getattr(model, "usage", None)
    counts = {} if usage is None else usage.take()
    if not any(counts.values()):
        return ()
    return (Usage(id=uuid4().hex, **counts, price_in=prices.prompt, price_out=prices.generated),)
