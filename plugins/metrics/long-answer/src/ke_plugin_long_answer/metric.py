"""Scores of long answers, from the record of one case.

The value of a probe is the mean over its queries. If several texts are right (aliases, or any of several answers), the
most similar one counts. A failed request counts as an empty answer, with similarity 0.

=============================== =====================================================================================
suffix                          value
=============================== =====================================================================================
-rouge-1, -rouge-2, -rouge-l    F1 of ROUGE
-rouge-1-recall and so on       recall of ROUGE, which the released evaluations of UnKE and AnyEdit report. It rewards
                                long answers
-bertscore                      F1 of BERTScore with the last hidden states of the encoder
-cosine                         cosine of the sentence embeddings of both texts, which they call "Bert Score"
-fluency                        weighted entropy of the bigrams and trigrams of the answer, in bits
=============================== =====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from attrs import define, frozen

from ke_benchmarks import ngram_entropy
from ke_core.plugin import (
    PHASES,
    Answer,
    CaseRecord,
    Encoder,
    Gold,
    NoValue,
    Phase,
    Probe,
    Value,
    expected,
    measured,
    outcome_of,
)
from ke_plugin_long_answer import BERTSCORE, COSINE, ENTROPY, GROUPS, RECALL, ROUGE
from ke_plugin_long_answer.similarity import Overlap, bertscore, rouge_l, rouge_n

NO_GOLD = "the question has no right answer"
SHORT = "every answer has fewer than three words"
NO_TOKENS = "the encoder has no vectors of tokens"
Similarity = Callable[[str, str], float]


ROUGES: dict[str, Callable[[str, str], Overlap]] = {
    "1": partial(rouge_n, n=1),
    "2": partial(rouge_n, n=2),
    "l": rouge_l,
}


@frozen(kw_only=True)
class Vectors:
    """The similarities that need an encoder. An empty text is similar to nothing."""

    encoder: Encoder

    def cosine(self, candidate: str, reference: str) -> float:
        """Return the cosine of the sentence embeddings."""
        if not candidate.strip():
            return 0.0
        one, other = self.encoder.embed([candidate, reference])
        length = float(np.linalg.norm(one) * np.linalg.norm(other))
        return float(one @ other) / length if length else 0.0

    def bertscore(self, candidate: str, reference: str) -> float:
        """Return F1 of BERTScore. Raises NoValue if the encoder has no token vectors."""
        embed_tokens: Callable[[str], Any] | None = getattr(self.encoder, "embed_tokens", None)
        if embed_tokens is None:
            raise NoValue(NO_TOKENS)
        return bertscore(embed_tokens(candidate), embed_tokens(reference)).f1 if candidate.strip() else 0.0


@define(kw_only=True, slots=False)
class LongAnswer:
    """Computes values from records. Without ``encoder``, BERTScore and cosine are omitted."""

    encoder: Encoder | None = None

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield the values of each probe with text answers, in each phase and style."""
        for probe in record.case.probes:
            if probe.aspect not in GROUPS or any(query.continuations for query in probe.queries):
                continue
            for phase in PHASES:
                for style in self._styles(record, probe, phase):
                    yield from self._probe(record, probe, phase, style)

    def _styles(self, record: CaseRecord, probe: Probe, phase: Phase) -> tuple[str, ...]:
        return (record.styles_of(probe, phase) or ("",)) if probe.asked(phase) else ()

    def _probe(self, record: CaseRecord, probe: Probe, phase: Phase, style: str) -> Iterator[Value]:
        unit = ",".join(probe.edits) or record.case.id
        for suffix, similar in self._similarities.items():
            measure = partial(_similarity, similar, record, probe, phase, style)
            yield self._value(record, probe, probe.aspect + suffix, measure, phase, style, unit)
        measure = partial(_fluency, record, probe, phase, style)
        yield self._value(record, probe, probe.aspect + ENTROPY, measure, phase, style, unit)

    @staticmethod
    def _value(record: CaseRecord, probe: Probe, aspect: str, measure: Callable[[], float], *where: str) -> Value:
        phase, style, unit = where
        why = record.skipped or ""
        return measured(aspect, measure, why=why, phase=phase, style=style, unit=unit, tags=probe.tags)

    @cached_property
    def _similarities(self) -> dict[str, Similarity]:
        found: dict[str, Similarity] = {}
        for kind, rouge in ROUGES.items():
            found[f"{ROUGE}{kind}"] = lambda *texts, rouge=rouge: rouge(*texts).f1
            found[f"{ROUGE}{kind}{RECALL}"] = lambda *texts, rouge=rouge: rouge(*texts).recall
        if self.encoder is not None:
            vectors = Vectors(encoder=self.encoder)
            found |= {BERTSCORE: vectors.bertscore, COSINE: vectors.cosine}
        return found


def references(gold: Gold) -> list[str]:
    """Return the texts that are right: each name if one answer is enough, otherwise all answers joined by commas."""
    if not gold.entities:
        raise NoValue(NO_GOLD)
    if gold.require == "any" or len(gold.entities) == 1:
        return [name for entity in gold.entities for name in entity.names]
    return [", ".join(entity.label for entity in gold.entities)]


def _similarity(similar: Similarity, record: CaseRecord, probe: Probe, phase: Phase, style: str) -> float:
    """Return the mean over the queries of the similarity to the text that is right after the edit.

    In a control, whose edits are not made, it is the similarity to the text that is right without them.
    """
    found = []
    for query in probe.queries:
        answer = _text(record, phase, style, query.id)
        right = references(query.gold if record.edited else expected(query, probe, phase, edited=False).gold)
        found.append(max(similar(answer, text) for text in right))
    return math.fsum(found) / len(found)


def _fluency(record: CaseRecord, probe: Probe, phase: Phase, style: str) -> float:
    texts = (_text(record, phase, style, query.id) for query in probe.queries)
    found = [bits for text in texts if (bits := ngram_entropy(text)) is not None]
    if not found:
        raise NoValue(SHORT)
    return math.fsum(found) / len(found)


def _text(record: CaseRecord, phase: Phase, style: str, query: str) -> str:
    """Return the answer, also if it was truncated or could not be parsed. A failure is an empty text."""
    reply = outcome_of(record, phase, style, query).reply
    return (reply.text or reply.raw) if isinstance(reply, Answer) else ""
