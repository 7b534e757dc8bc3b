"""A procedure under way: its pending request, its cost, and its result."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from traceback import extract_tb
from typing import Any, Generic, TypeVar

from attrs import define, evolve, field

from ke_core.spec.codec import canonical
from ke_core.spec.errors import KEError, ProcessLost, TooManyFailures, WeightsNotRestored
from ke_core.spec.requests import Embed, Generate, Generated, Nearest, Procedure, Request, Score
from ke_core.spec.results import Cost, Failure, Scored

T = TypeVar("T")
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
            self.cost += call_cost(outcome)
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

    def cancel(self) -> None:
        """End the procedure without an answer."""
        with suppress(Exception):  # of a procedure that handles GeneratorExit
            self.procedure.close()
        self.result, self.request, self.done = Failure(error="Canceled", message="nobody needs it"), None, True

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
    """Return an exception as a reply: its class, and its message in one line. Of a bug, it names the line of code."""
    message = " ".join(str(error).split())
    if error.__traceback__ is not None and not isinstance(error, KEError):
        last = extract_tb(error.__traceback__)[-1]
        message = f"{message} ({'/'.join(Path(last.filename).parts[-2:])}, line {last.lineno})".lstrip()
    return Failure(error=type(error).__name__, message=message)


def joined(parts: Sequence[Any]) -> Any:
    """Join scores of the parts of one request. The first part that is not a score is the result."""
    other = next((part for part in parts if not isinstance(part, Scored)), None)
    return Scored.of(one for part in parts for one in part.parts) if other is None else other


def call_cost(outcome: object) -> Cost:
    """Return the cost of one model call. The tokens of scores and errors are not counted."""
    written = outcome if isinstance(outcome, Generated) else Generated(text="", finish="stop")
    return Cost(calls=1, prompt_tokens=written.prompt_tokens, tokens=written.tokens)
