"""Perplexity of held-out text under each model, and how it changed.

Over the passages together, exp(sum of -log p / number of tokens): every token weighs the same. Both models score the
same tokens, since editing leaves the tokenizer alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from ke_core.plugin import Failure, ModelRecord, Reply, Scored, Value

PERPLEXITY, RATIO = "perplexity", "perplexity-ratio"
NOT_ASKED = "the run did not ask it: ke eval with --metric drift does"


class Unmeasurable(Exception):
    """Why there is no number."""


class Drift:
    """Reads records; nothing else."""

    def model_values(self, record: ModelRecord) -> Iterator[Value]:
        """The perplexity of this model; of an edited one also that over the unedited model's."""
        yield _value(record, PERPLEXITY, lambda: math.exp(nll(record.replies)))
        if record.phase == "after":
            yield _value(record, RATIO, lambda: math.exp(nll(record.replies) - nll(record.unedited)))


def nll(replies: Mapping[str, Reply]) -> float:
    """Mean negative log-probability of a token, natural logarithm. Raises Unmeasurable where a passage has none."""
    if not replies:
        raise Unmeasurable(NOT_ASKED)
    total, tokens = list[float](), 0
    for reply in replies.values():
        if isinstance(reply, Failure):
            raise Unmeasurable(reply.message or reply.error)
        if not isinstance(reply, Scored):
            raise Unmeasurable("the answer is a text, not log-probabilities")
        total += reply.logprobs
        tokens += sum(reply.tokens)
    return -math.fsum(total) / max(tokens, 1)


def _value(record: ModelRecord, aspect: str, measure: Callable[[], float]) -> Value:
    value, reason = None, record.skipped
    if not reason:
        try:
            value = measure()
        except Unmeasurable as why:
            reason = str(why)
        except OverflowError:
            reason = "too large for a number"
    return Value(aspect=aspect, value=value, phase=record.phase, skipped_because=reason)
