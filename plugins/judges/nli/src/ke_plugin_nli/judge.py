"""Compare facts in the thoughts before an answer with the case's facts, by a classifier for textual entailment.

The case's sentences are the premise and one fact is the hypothesis: entailment is ``consistent``, contradiction
``inconsistent``, neutral ``unrelated``. Every sentence of the thoughts is a fact. Facts that are too long for the
classifier, or below the minimum probability, are ``fact-unsure``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from attrs import frozen
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ke_benchmarks import (
    CONSISTENT,
    FACT_UNSURE,
    INCONSISTENT,
    NO_THOUGHTS,
    UNRELATED,
    paragraph,
    sentences,
    thoughts_of,
)
from ke_core.plugin import BadConfig, Finding, Item, Judgment, Session, Verdict
from ke_plugin_nli import NLIConfig

MEANS = {"entailment": CONSISTENT, "neutral": UNRELATED, "contradiction": INCONSISTENT}
LONGEST = 512  # tokens, for a classifier without a limit
BATCH = 32


@frozen(kw_only=True, eq=False)
class NLIJudge:
    """``labels``: position in the classifier's output to our label."""

    config: NLIConfig
    model: Any
    tokenizer: Any
    labels: Mapping[int, str]

    @classmethod
    def load(cls, config: NLIConfig) -> Self:
        """Load the classifier. Raises BadConfig if it cannot be loaded or lacks one of the three labels."""
        try:
            tokenizer = AutoTokenizer.from_pretrained(config.model)
            model = AutoModelForSequenceClassification.from_pretrained(config.model, dtype=torch.float32)
        except (OSError, ValueError, KeyError) as error:
            why = " ".join(str(error).split())[:300]
            raise BadConfig(
                f"nli.model: cannot load {config.model}: {why}", hint="use a local folder or a hub id of a classifier"
            ) from error
        named = {int(at): str(name).strip().casefold() for at, name in model.config.id2label.items()}
        if set(named.values()) != set(MEANS):
            raise BadConfig(
                f"nli.model: {config.model} has the labels {', '.join(named.values())}",
                hint=f"use a classifier with the labels {', '.join(MEANS)}",
            )
        model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
        return cls(config=config, model=model, tokenizer=tokenizer, labels={at: MEANS[n] for at, n in named.items()})

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment for each item, in order. Needs no session."""
        del session
        facts = [_facts(item) for item in items]
        pairs = [
            (paragraph(item.facts), fact) for item, own in zip(items, facts, strict=True) for fact in own if item.facts
        ]
        found = iter(self._findings(pairs))
        return [
            _judgment(item, own, tuple(next(found) for _fact in own) if item.facts else ())
            for item, own in zip(items, facts, strict=True)
        ]

    def _findings(self, pairs: Sequence[tuple[str, str]]) -> list[Finding]:
        """Return one finding for each pair, in order. Pairs of similar length form a batch."""
        limit = min(self.tokenizer.model_max_length, getattr(self.model.config, "max_position_embeddings", LONGEST))
        encoded = [self.tokenizer(premise, fact)["input_ids"] for premise, fact in pairs]
        order = sorted((at for at, ids in enumerate(encoded) if len(ids) <= limit), key=lambda at: len(encoded[at]))
        found: dict[int, Finding] = {}
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            for at, shares in zip(rows, self._shares([pairs[at] for at in rows]), strict=True):
                found[at] = self._finding(pairs[at][1], shares)
        too_long = f"premise and fact together have more than {limit} tokens"
        return [
            found.get(at, Finding(item=fact, label=FACT_UNSURE, note=too_long))
            for at, (_held, fact) in enumerate(pairs)
        ]

    @torch.inference_mode()
    def _shares(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """Return probabilities of the classifier's labels, [pairs, 3]."""
        batch = self.tokenizer(
            [held for held, _fact in pairs], [fact for _held, fact in pairs], padding=True, return_tensors="pt"
        )
        logits = self.model(**batch.to(self.model.device)).logits
        shares: list[list[float]] = logits.float().softmax(dim=-1).cpu().tolist()
        return shares

    def _finding(self, fact: str, shares: Sequence[float]) -> Finding:
        best = max(range(len(shares)), key=shares.__getitem__)
        label = self.labels[best] if shares[best] >= self.config.sure else FACT_UNSURE
        return Finding(item=fact, label=label, note=f"{self.labels[best]} {shares[best]:.3f}")


def _facts(item: Item) -> tuple[str, ...]:
    return sentences(thoughts_of(item.answer))


def _judgment(item: Item, facts: Sequence[str], found: tuple[Finding, ...]) -> Judgment:
    """Return the judgment. The verdict is UNSURE, because the answer itself is not judged; WRONG without an answer."""
    reply = item.answer
    answered = reply.outcome == "answered" and bool(reply.text.strip())
    silent = () if facts else (Finding(item=reply.text, label=NO_THOUGHTS),)
    return Judgment(verdict=Verdict.UNSURE if answered else Verdict.WRONG, findings=(*silent, *found))
