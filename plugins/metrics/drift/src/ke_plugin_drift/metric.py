"""Perplexity of unrelated text under each model, and the change of it and of the next word.

Perplexity: exp(sum of -log p / number of tokens) over all passages, so every token has the same weight. Both models
score the same tokens, because editing does not change the tokenizer.

Divergence: KL(unedited || edited) of the word after the first half of a passage, mean over passages, in nats. The
outcomes are the words of ``passages.NEXT`` and one class for everything else. Merging outcomes can only lower the
divergence (log-sum inequality), so it is a lower bound of that of the next token. Any model with log-probabilities
supports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ke_core.plugin import ModelRecord, NoValue, Reply, Scored, Value, log_probabilities, measured
from ke_plugin_drift.passages import AHEAD, PASSAGE

PERPLEXITY, RATIO, DIVERGENCE = "perplexity", "perplexity-ratio", "next-word-kl"
LEAST = 1e-12
"""Minimum probability of everything else: rounding may leave nothing."""
NOT_ASKED = "the run did not request it: use ke eval with --metric drift"


class Drift:
    """Computes values from records."""

    def model_values(self, record: ModelRecord) -> Iterator[Value]:
        """Yield the perplexity of this model; for an edited model also the ratio to the unedited one, and the
        divergence.
        """
        measures = {PERPLEXITY: lambda: math.exp(nll(record.replies))}
        if record.phase == "after":
            measures[RATIO] = lambda: math.exp(nll(record.replies) - nll(record.unedited))
            measures[DIVERGENCE] = lambda: divergence(record.unedited, record.replies)
        for aspect, measure in measures.items():
            yield measured(aspect, measure, why=record.skipped, phase=record.phase)


def nll(replies: Mapping[str, Reply]) -> float:
    """Return the mean negative log-probability of a token (natural logarithm). Raises NoValue if a passage has none."""
    found = _scored(replies, PASSAGE).values()
    total = math.fsum(logprob for reply in found for logprob in reply.logprobs)
    return -total / max(sum(sum(reply.tokens) for reply in found), 1)


def divergence(unedited: Mapping[str, Reply], edited: Mapping[str, Reply]) -> float:
    """Return the mean over passages of KL(unedited || edited) of the next word, in nats. Raises NoValue."""
    before, after = _scored(unedited, AHEAD), _scored(edited, AHEAD)
    if before.keys() != after.keys():
        raise NoValue(NOT_ASKED)
    return math.fsum(_kl(before[name].logprobs, after[name].logprobs) for name in before) / len(before)


def _kl(before: Sequence[float], after: Sequence[float]) -> float:
    terms = [math.exp(p) * (p - q) for p, q in zip(_with_rest(before), _with_rest(after), strict=True)]
    return max(math.fsum(terms), 0.0)


def _with_rest(logprobs: Sequence[float]) -> list[float]:
    """Return the log-probabilities of the requested outcomes and of everything else."""
    return [*logprobs, math.log(max(1 - math.fsum(map(math.exp, logprobs)), LEAST))]


def _scored(replies: Mapping[str, Reply], kind: str) -> Mapping[str, Scored]:
    """Return the log-probabilities of the requests of that type. Raises NoValue if one is missing."""
    found = {name: log_probabilities(reply) for name, reply in replies.items() if name.startswith(kind)}
    if not found:
        raise NoValue(NOT_ASKED)
    return found
