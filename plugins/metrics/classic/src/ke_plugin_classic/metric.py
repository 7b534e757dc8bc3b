"""The classic measures of a single edit, from the record of one case.

====================== =====================================================================================
aspect                 value, one for each edit
====================== =====================================================================================
efficacy               1 if the edit's own fact is answered with the new object
efficacy-probability   1 if after the edit's cloze the new object is more probable than the old one
paraphrase             1 if the edit's question is answered with the new object
paraphrase-probability 1 if after that question and its answer prompt the new object is more probable
locality               fraction of other subjects' clozes with the same continuation as the unedited model's
locality-word          fraction of them whose continuation begins with the same word as the unedited model's
locality-probability   fraction of them after which their own object is more probable than the edit's new one
efficacy-magnitude     P(new) - P(old) after the edit's cloze, if efficacy-probability compares them
paraphrase-magnitude   the same after its question
locality-magnitude     P(own) - P(new), the mean over the other subjects' clozes
portability            1 if a question that follows from the edit is answered correctly
fluency                entropy of the bigrams and trigrams of texts about the edit's subject, in bits; also of the
                       unedited model
consistency            cosine similarity (tf-idf) of these texts and reference texts about entities that really have
                       the new object; only with ``references``
====================== =====================================================================================

The probability of an object is the geometric mean over its tokens, or (``compare=sum``) their product.

For a control (its edits are withheld) the old object is the right one. Teacher-forced accuracy is not included: it
gives a model that misses the first token of an object credit for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from attrs import evolve, field, frozen

from ke_benchmarks import ngram_entropy
from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    FLUENCY,
    LOCALITY,
    PARAPHRASE,
    PHASES,
    PORTABILITY,
    PROBABILITY,
    Answer,
    CaseRecord,
    Failure,
    NoValue,
    Phase,
    Probe,
    Query,
    Reply,
    Value,
    Verdict,
    expected,
    log_probabilities,
    measured,
    outcome_of,
    verdict_of,
)
from ke_plugin_classic import ClassicConfig
from ke_plugin_classic.texts import ReferenceTexts

WRITTEN = (EFFICACY, PARAPHRASE, PORTABILITY)
COMPARED = {name + PROBABILITY: f"{name}-magnitude" for name in (EFFICACY, PARAPHRASE, LOCALITY)}
"""Aspect of a probe to the aspect of its magnitude."""
LOCALITY_WORD, CONSISTENCY = "locality-word", "consistency"
SHORT = "every text has fewer than three words"
NO_OBJECT = "the edit names no object"
NO_REFERENCE = "no reference text for the edit's relation and object"
Measure = Callable[[CaseRecord, Probe, str], float]


@frozen(kw_only=True)
class Classic:
    """Computes values from records."""

    config: ClassicConfig = field(factory=ClassicConfig)
    references: ReferenceTexts = field(factory=ReferenceTexts)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every observation of this case, one for each probe and style; without a style if the probe has no
        reply.
        """
        for probe in record.case.probes:
            if probe.aspect == FLUENCY:
                yield from self._texts(record, probe)
            for aspect, measure in self._measures(probe.aspect):
                for style in record.styles_of(probe, "after") or ("",):
                    yield _value(record, probe, aspect, style, measure)

    def _measures(self, aspect: str) -> Iterator[tuple[str, Measure]]:
        if aspect in WRITTEN:
            yield aspect, _written
        elif aspect in COMPARED:
            yield aspect, self._compared
            yield COMPARED[aspect], self._magnitude
        elif aspect == LOCALITY:
            yield aspect, _same_text
            yield LOCALITY_WORD, _same_word

    def _texts(self, record: CaseRecord, probe: Probe) -> Iterator[Value]:
        """Yield fluency and consistency of both models' texts about the edit's subject."""
        for phase in PHASES:
            for style in record.styles_of(probe, phase) if probe.asked(phase) else ():
                fluent, consistent = partial(_fluency, phase), partial(self._consistency, phase)
                yield evolve(_value(record, probe, FLUENCY, style, fluent), phase=phase)
                if self.references.texts:
                    yield evolve(_value(record, probe, CONSISTENCY, style, consistent), phase=phase)
        if not any(record.styles_of(probe, phase) for phase in PHASES):
            yield _value(record, probe, FLUENCY, "", partial(_fluency, "after"))

    def _consistency(self, phase: Phase, record: CaseRecord, probe: Probe, style: str) -> float:
        """Return the similarity of all texts and the reference texts of the edit's relation and new object."""
        facts = [edit.after for edit in record.case.edits if edit.id in probe.edits and edit.after is not None]
        if not facts or not facts[0].objects:
            raise NoValue(NO_OBJECT)
        written = " ".join(_written_texts(phase, record, probe, style))
        found = self.references.similarity(written, (facts[0].relation.key, facts[0].objects[0].key))
        if found is None:
            raise NoValue(NO_REFERENCE)
        return found

    def _compared(self, record: CaseRecord, probe: Probe, style: str) -> float:
        wins = [self._wins(query, record, probe, style) for query in probe.queries]
        return sum(wins) / len(wins)

    def _wins(self, query: Query, record: CaseRecord, probe: Probe, style: str) -> bool:
        """Return whether the right object is more probable than every other one."""
        if _failed(outcome_of(record, "after", style, query.id).reply):
            return False
        own, others = self._scores(query, record, probe, style)
        return all(own > other for other in others)

    def _magnitude(self, record: CaseRecord, probe: Probe, style: str) -> float:
        """Return the lead of the right object over the most probable other one (ROME's EM, PM and NM).

        A failure counts as the worst value: the other object is certain.
        """
        ahead = []
        for query in probe.queries:
            if _failed(outcome_of(record, "after", style, query.id).reply):
                ahead.append(-1.0)
                continue
            own, others = self._scores(query, record, probe, style)
            ahead.append(math.exp(own) - math.exp(max(others)))
        return math.fsum(ahead) / len(ahead)

    def _scores(self, query: Query, record: CaseRecord, probe: Probe, style: str) -> tuple[float, list[float]]:
        """Return the log-probabilities of the right object of that phase and of the others. Raises NoValue."""
        reply = log_probabilities(outcome_of(record, "after", style, query.id).reply)
        right = expected(query, probe, "after", edited=record.edited).gold.entities[0].label.strip()
        own = query.options.index(right)
        scores = list(map(self._score, reply.logprobs, reply.tokens))
        return scores[own], [score for place, score in enumerate(scores) if place != own]

    def _score(self, logprob: float, tokens: int) -> float:
        return logprob / max(tokens, 1) if self.config.compare == "mean" else logprob


def _value(record: CaseRecord, probe: Probe, aspect: str, style: str, measure: Measure) -> Value:
    unit = ",".join(probe.edits) or record.case.id
    number = partial(measure, record, probe, style)
    why = record.skipped or ("" if record.edited else _withheld(probe))
    return measured(aspect, number, why=why, style=style, unit=unit, tags=probe.tags)


def _withheld(probe: Probe) -> str:
    """Return why a control has no value: its right answer, the one before the edit, is unknown."""
    about_the_edit = probe.aspect in (*WRITTEN, EFFICACY + PROBABILITY, PARAPHRASE + PROBABILITY)
    return EDITS_WITHHELD if about_the_edit and any(query.pre_edit is None for query in probe.queries) else ""


def _failed(reply: Reply) -> bool:
    """Return whether a model that returns log-probabilities failed to return them."""
    return isinstance(reply, Failure) and not reply.unscored


def _written(record: CaseRecord, probe: Probe, style: str) -> float:
    outcomes = [outcome_of(record, "after", style, query.id) for query in probe.queries]
    right = [verdict_of(outcome) is Verdict.RIGHT for outcome in outcomes]
    return float(any(right) if probe.require == "any" else all(right))


def _same_text(record: CaseRecord, probe: Probe, style: str) -> float:
    return _same(record, probe, style, lambda text: text)


def _same_word(record: CaseRecord, probe: Probe, style: str) -> float:
    return _same(record, probe, style, lambda text: text.split()[:1])


def _same(record: CaseRecord, probe: Probe, style: str, part: Callable[[str], Sequence[str]]) -> float:
    """Return the fraction of queries with the unedited model's answer. A failure is a different answer."""
    same = []
    for query in probe.queries:
        before = record.outcomes.get(("before", style, query.id))
        after = outcome_of(record, "after", style, query.id).reply
        if before is None:
            raise NoValue("the unedited model was not asked in this style")
        if not isinstance(before.reply, Answer):
            raise NoValue("the unedited model gave no answer")
        same.append(isinstance(after, Answer) and part(_said(after)) == part(_said(before.reply)))
    return sum(same) / len(same)


def _said(answer: Answer) -> str:
    return answer.text or answer.raw


def _written_texts(phase: Phase, record: CaseRecord, probe: Probe, style: str) -> list[str]:
    """Return the generated text after each opening. A failure has an empty text."""
    replies = [outcome_of(record, phase, style, query.id).reply for query in probe.queries]
    return [_said(reply) if isinstance(reply, Answer) else "" for reply in replies]


def _fluency(phase: Phase, record: CaseRecord, probe: Probe, style: str) -> float:
    """Return the mean over the texts with at least three words."""
    found = [bits for text in _written_texts(phase, record, probe, style) if (bits := ngram_entropy(text)) is not None]
    if not found:
        raise NoValue(SHORT)
    return sum(found) / len(found)
