"""The classic measures of a single edit, from one case's record.

====================== =====================================================================================
aspect                 value, one an edit
====================== =====================================================================================
efficacy               1 if the edit's own fact is answered with the new object
efficacy-probability   1 if after the edit's cloze the new object is more probable than the old one
paraphrase             1 if the edit's question is answered with the new object
paraphrase-probability 1 if after that question and its answer prompt the new object is the more probable
locality               share of other subjects' clozes that are continued, letter for letter, as by the unedited model
locality-word          share of them whose continuation begins with the same word as the unedited model's
locality-probability   share of them after which their own object is more probable than the edit's new one
efficacy-magnitude     P(new) - P(old) after the edit's cloze, where efficacy-probability compares them; likewise
paraphrase-magnitude   after its question, and
locality-magnitude     P(own) - P(new), the mean over the other subjects' clozes
portability            1 if a question that follows from the edit is answered right
fluency                entropy of the bigrams and trigrams of texts about the edit's subject, in bits; of the unedited
                       model too
consistency            cosine similarity, by tf-idf, of these texts and reference texts about things that have the new
                       object in truth; only with ``references``
====================== =====================================================================================

A probability is that of an object's tokens: their geometric mean, or (``compare=sum``) their product.

For a control (its edits are withheld) the old object is the right one. Nothing here is teacher-forced accuracy, which
gives a model that misses the first token of an object points for the rest (V1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EFFICACY,
    FLUENCY,
    JUDGE_UNSURE,
    LOCALITY,
    NOT_ON_RECORD,
    PARAPHRASE,
    PORTABILITY,
    PROBABILITY,
    Answer,
    CaseRecord,
    Failure,
    NoValue,
    Outcome,
    Phase,
    Probe,
    Query,
    Reply,
    Scored,
    Value,
    Verdict,
    expected,
)
from ke_plugin_classic import ClassicConfig
from ke_plugin_classic.texts import ReferenceTexts, fluency

WRITTEN = (EFFICACY, PARAPHRASE, PORTABILITY)
COMPARED = {name + PROBABILITY: f"{name}-magnitude" for name in (EFFICACY, PARAPHRASE, LOCALITY)}
"""Aspect of a probe, and of how far the right object is ahead."""
LOCALITY_WORD, CONSISTENCY = "locality-word", "consistency"
SHORT = "every text is shorter than three words"
NO_OBJECT = "the edit names no object"
NO_REFERENCE = "no reference text of the edit's relation and object"
PHASES: tuple[Phase, ...] = ("before", "after")
Measure = Callable[[CaseRecord, Probe, str], float]


@frozen(kw_only=True)
class Classic:
    """Reads records; nothing else."""

    config: ClassicConfig = field(factory=ClassicConfig)
    references: ReferenceTexts = field(factory=ReferenceTexts)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Every observation of this case, one for each probe and style; a probe that was not asked has no style."""
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
        """Of what both models write about the edit's subject."""
        for phase in PHASES:
            for style in record.styles_of(probe, phase) if probe.asked(phase) else ():
                fluent, consistent = partial(_fluency, phase), partial(self._consistency, phase)
                yield evolve(_value(record, probe, FLUENCY, style, fluent), phase=phase)
                if self.references.texts:
                    yield evolve(_value(record, probe, CONSISTENCY, style, consistent), phase=phase)
        if not any(record.styles_of(probe, phase) for phase in PHASES):
            yield _value(record, probe, FLUENCY, "", partial(_fluency, "after"))

    def _consistency(self, phase: Phase, record: CaseRecord, probe: Probe, style: str) -> float:
        """Of all texts together, with those of the edit's relation and new object."""
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
        """Whether the object that is right at that moment is more probable than every other one."""
        if _failed(_outcome(record, query, style).reply):
            return False
        own, others = self._scores(query, record, probe, style)
        return all(own > other for other in others)

    def _magnitude(self, record: CaseRecord, probe: Probe, style: str) -> float:
        """By how much the right object is more probable than the likeliest other one (ROME, EM and PM and NM).

        A failure counts as the worst that can be: the other object is certain.
        """
        ahead = []
        for query in probe.queries:
            if _failed(_outcome(record, query, style).reply):
                ahead.append(-1.0)
                continue
            own, others = self._scores(query, record, probe, style)
            ahead.append(math.exp(own) - math.exp(max(others)))
        return math.fsum(ahead) / len(ahead)

    def _scores(self, query: Query, record: CaseRecord, probe: Probe, style: str) -> tuple[float, list[float]]:
        """Log-probability of the object that is right at that moment, and of every other one. Raises NoValue."""
        reply = _outcome(record, query, style).reply
        if isinstance(reply, Failure):
            raise NoValue(reply.message or reply.error)
        if not isinstance(reply, Scored):
            raise NoValue("the answer is a text, not log-probabilities")
        right = expected(query, probe, "after", edited=record.edited).gold.entities[0].label.strip()
        own = query.options.index(right)
        scores = list(map(self._score, reply.logprobs, reply.tokens))
        return scores[own], [score for place, score in enumerate(scores) if place != own]

    def _score(self, logprob: float, tokens: int) -> float:
        return logprob / max(tokens, 1) if self.config.compare == "mean" else logprob


def _value(record: CaseRecord, probe: Probe, aspect: str, style: str, measure: Measure) -> Value:
    value, reason = None, record.skipped or ""
    if not reason:
        try:
            value = float(measure(record, probe, style))
        except NoValue as why:
            reason = str(why)
    unit = ",".join(probe.edits) or record.case.id
    return Value(aspect=aspect, value=value, style=style, unit=unit, tags=probe.tags, skipped_because=reason)


def _outcome(record: CaseRecord, query: Query, style: str, phase: Phase = "after") -> Outcome:
    found = record.outcomes.get((phase, style, query.id))
    if found is None:
        raise NoValue(NOT_ON_RECORD)
    return found


def _failed(reply: Reply) -> bool:
    """Whether log-probabilities were asked of a model that gives them, and there are none."""
    return isinstance(reply, Failure) and not reply.unscored


def _written(record: CaseRecord, probe: Probe, style: str) -> float:
    verdicts = [_outcome(record, query, style).judgment.verdict for query in probe.queries]
    if Verdict.UNSURE in verdicts:
        raise NoValue(JUDGE_UNSURE)
    right = [verdict is Verdict.RIGHT for verdict in verdicts]
    return float(any(right) if probe.require == "any" else all(right))


def _same_text(record: CaseRecord, probe: Probe, style: str) -> float:
    return _same(record, probe, style, lambda text: text)


def _same_word(record: CaseRecord, probe: Probe, style: str) -> float:
    return _same(record, probe, style, lambda text: text.split()[:1])


def _same(record: CaseRecord, probe: Probe, style: str, part: Callable[[str], Sequence[str]]) -> float:
    """The share of the queries that the edited model answers as the unedited one did; a failure is another answer."""
    same = []
    for query in probe.queries:
        before, after = record.outcomes.get(("before", style, query.id)), _outcome(record, query, style).reply
        if before is None:
            raise NoValue("the unedited model was not asked in that way")
        if not isinstance(before.reply, Answer):
            raise NoValue("the unedited model gave no answer")
        same.append(isinstance(after, Answer) and part(after.text) == part(before.reply.text))
    return sum(same) / len(same)


def _written_texts(phase: Phase, record: CaseRecord, probe: Probe, style: str) -> list[str]:
    """What was written after each opening, without the opening (V3). A failure has written nothing."""
    replies = [_outcome(record, query, style, phase).reply for query in probe.queries]
    return [reply.text or reply.raw if isinstance(reply, Answer) else "" for reply in replies]


def _fluency(phase: Phase, record: CaseRecord, probe: Probe, style: str) -> float:
    """The mean over the texts that have three words or more."""
    found = [bits for text in _written_texts(phase, record, probe, style) if (bits := fluency(text)) is not None]
    if not found:
        raise NoValue(SHORT)
    return sum(found) / len(found)
