"""The verdict on log-probabilities: which object is the most probable, the right one or the pre-edit one.

A tie is WRONG: the right object is not more probable. A text is UNSURE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Finding, Gold, Item, Judgment, Query, Scored, Session, Verdict
from ke_plugin_probability import ProbabilityConfig


@frozen(kw_only=True)
class Probability:
    """Judges log-probabilities."""

    config: ProbabilityConfig

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment for each item, in order. Needs no session."""
        del session
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Judgment:
        reply = item.reply
        if not isinstance(reply, Scored):
            return _judgment(Verdict.UNSURE, Finding(item="text", label="not-log-probabilities"))
        scores = self._scores(item.query, reply)
        findings = [Finding(item=name, label="log-probability", note=f"{score:.6g}") for name, score in scores.items()]
        if not _names(item.query.gold) & set(scores):
            return _judgment(Verdict.UNSURE, Finding(item="", label="no-gold-name"), *findings)
        best = max(scores.values())
        top = [name for name, score in scores.items() if score == best]
        return _judgment(_verdict(top, item.query), *findings)

    def _scores(self, query: Query, reply: Scored) -> dict[str, float]:
        """Return scores by object, as named in the query."""
        mean = self.config.compare == "mean"
        return {
            name: logprob / max(tokens, 1) if mean else logprob
            for name, logprob, tokens in zip(query.options, reply.logprobs, reply.tokens, strict=True)
        }


def _verdict(top: Sequence[str], query: Query) -> Verdict:
    if set(top) <= _names(query.gold):
        return Verdict.RIGHT
    return Verdict.PRE_EDIT if query.pre_edit and set(top) <= _names(query.pre_edit) else Verdict.WRONG


def _names(gold: Gold) -> set[str]:
    return {name.strip() for entity in gold.entities for name in entity.names}


def _judgment(verdict: Verdict, *findings: Finding) -> Judgment:
    return Judgment(verdict=verdict, findings=findings)
