"""Perplexity of held-out text under each model, and how it and the next word changed.

Perplexity: over the passages together, exp(sum of -log p / number of tokens): every token weighs the same. Both models
score the same tokens, since editing leaves the tokenizer alone.

Divergence: KL(unedited || edited) of what comes after the first half of a passage, mean over passages, in nats. The
outcomes are the words of ``passages.NEXT`` and, together, everything else. Outcomes that are put together can only
lower the divergence (log-sum inequality): it is a lower bound of that of the next token, and one that any model with
log-probabilities can be asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from ke_core.plugin import Failure, ModelRecord, NoValue, Reply, Scored, Value
from ke_plugin_drift.passages import AHEAD, PASSAGE

PERPLEXITY, RATIO, DIVERGENCE = "perplexity", "perplexity-ratio", "next-word-kl"
LEAST = 1e-12
"""What is left for everything else is no less than that: rounding may leave nothing."""
NOT_ASKED = "the run did not ask it: ke eval with --metric drift does"


class Drift:
    """Reads records; nothing else."""

    def model_values(self, record: ModelRecord) -> Iterator[Value]:
        """The perplexity of this model; of an edited one also that over the unedited model's, and the divergence."""
        yield _value(record, PERPLEXITY, lambda: math.exp(nll(record.replies)))
        if record.phase == "after":
            yield _value(record, RATIO, lambda: math.exp(nll(record.replies) - nll(record.unedited)))
            yield _value(record, DIVERGENCE, lambda: divergence(record.unedited, record.replies))


def nll(replies: Mapping[str, Reply]) -> float:
    """Mean negative log-probability of a token, natural logarithm. Raises NoValue where a passage has none."""
    found = _scored(replies, PASSAGE).values()
    total = math.fsum(logprob for reply in found for logprob in reply.logprobs)
    return -total / max(sum(sum(reply.tokens) for reply in found), 1)


def divergence(unedited: Mapping[str, Reply], edited: Mapping[str, Reply]) -> float:
    """Mean over passages of KL(unedited || edited) of the next word, in nats. Raises NoValue."""
    before, after = _scored(unedited, AHEAD), _scored(edited, AHEAD)
    if before.keys() != after.keys():
        raise NoValue(NOT_ASKED)
    return math.fsum(_kl(before[name].logprobs, after[name].logprobs) for name in before) / len(before)


def _kl(before: Sequence[float], after: Sequence[float]) -> float:
    terms = [math.exp(p) * (p - q) for p, q in zip(_with_rest(before), _with_rest(after), strict=True)]
    return max(math.fsum(terms), 0.0)


def _with_rest(logprobs: Sequence[float]) -> list[float]:
    """The outcomes asked for, and everything else."""
    return [*logprobs, math.log(max(1 - math.fsum(map(math.exp, logprobs)), LEAST))]


def _scored(replies: Mapping[str, Reply], kind: str) -> Mapping[str, Scored]:
    """Log-probabilities of what was asked of that kind. Raises NoValue where one has none."""
    found = {}
    for name, reply in replies.items():
        if not name.startswith(kind):
            continue
        if isinstance(reply, Failure):
            raise NoValue(reply.message or reply.error)
        if not isinstance(reply, Scored):
            raise NoValue("the answer is a text, not log-probabilities")
        found[name] = reply
    if not found:
        raise NoValue(NOT_ASKED)
    return found


def _value(record: ModelRecord, aspect: str, measure: Callable[[], float]) -> Value:
    value, reason = None, record.skipped
    if not reason:
        try:
            value = measure()
        except NoValue as why:
            reason = str(why)
        except OverflowError:
            reason = "too large for a number"
    return Value(aspect=aspect, value=value, phase=record.phase, skipped_because=reason)
