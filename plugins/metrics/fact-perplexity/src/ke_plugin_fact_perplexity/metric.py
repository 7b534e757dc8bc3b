"""ReCoE's fact-wise editing criterion (Hua et al. 2024, section 5.1), from recorded log-probabilities.

========================== ====== =================================================================================
aspect                     phase  value, for one case
========================== ====== =================================================================================
perplexity-facts           both   PPL(F): mean over its atomic sentences of exp(-log p / tokens), natural logarithm
perplexity-counterfactuals both   PPL(CF): the same of its counterfactual sentences
difference                 both   Delta = PPL(CF) - PPL(F): below 0 the counterfactuals are more probable. The
                                  paper's table prints its negative
fact-wise                  after  1 if min(Delta before, 0) > Delta after: after editing, CF must have a lower
                                  perplexity than F, by more than before
========================== ====== =================================================================================

``fact-wise`` is also computed by scheme (``fact-wise-sorting``), because the paper's average is the unweighted mean
over six schemes. Sentences are scored after their first word (``ke_benchmarks.perplexity_probes``), by the tokens of
the model's own tokenizer. Perplexities of models with different tokenizers are not comparable; the criterion is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

from attrs import evolve, field, frozen

from ke_core.plugin import (
    COUNTERFACTUALS_PERPLEXITY,
    FACTS_PERPLEXITY,
    PHASES,
    CaseRecord,
    Failure,
    NoValue,
    Phase,
    Probe,
    Query,
    Value,
    Verdict,
    log_probabilities,
    measured,
    withheld,
)
from ke_plugin_fact_perplexity import SCHEMES, SUCCESS, FactPerplexityConfig

REASONING = "reasoning"
DIFFERENCE = "difference"
SIDES = (FACTS_PERPLEXITY, COUNTERFACTUALS_PERPLEXITY)
Sides = Mapping[str, Probe]
ABSENT = "a sentence has no recorded log-probability"
ONE_SIDED = "facts or counterfactuals have no sentence to score"
NOT_ASKED = "the unedited model was not asked in this style"
WRONG_BEFORE = "the unedited model does not answer the question correctly"
NO_QUESTION = "the unedited model got no question"


@frozen
class FactPerplexity:
    """Computes values from records."""

    config: FactPerplexityConfig = field(factory=FactPerplexityConfig)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every observation of this case."""
        sides = {probe.aspect: probe for probe in record.case.probes if probe.aspect in SIDES}
        for phase in PHASES if sides else ():
            for style in _styles(record, phase, sides) or ("",):
                yield from self._side(record, sides, phase, style)

    def _side(self, record: CaseRecord, sides: Sides, phase: Phase, style: str) -> Iterator[Value]:
        why = record.skipped or withheld(record, phase)
        why = why or self._excluded(record, style)
        for aspect in SIDES:
            number = partial(_perplexity, record, sides, aspect, phase, style)
            yield measured(aspect, number, why=why, phase=phase, style=style)
        number = partial(_difference, record, sides, phase, style)
        yield measured(DIFFERENCE, number, why=why, phase=phase, style=style)
        if phase == "after":
            success = measured(SUCCESS, partial(_success, record, sides, style), why=why, phase=phase, style=style)
            yield success
            scheme = record.case.tags.get("scheme", "")
            if scheme in SCHEMES:
                yield evolve(success, aspect=f"{SUCCESS}-{scheme}")

    def _excluded(self, record: CaseRecord, style: str) -> str:
        """Return why the case is not among those of the paper, by the same style, otherwise by the first one."""
        if self.config.cases == "all":
            return ""
        asked = [query.id for probe in record.case.probes if probe.aspect == REASONING for query in probe.queries]
        for name in (style, *record.styles("before")):
            found = [record.outcomes.get(("before", name, query)) for query in asked]
            there = [outcome for outcome in found if outcome is not None]
            if there:
                right = any(outcome.judgment.verdict is Verdict.RIGHT for outcome in there)
                return "" if right else WRONG_BEFORE
        return NO_QUESTION


def _perplexity(record: CaseRecord, sides: Sides, aspect: str, phase: Phase, style: str) -> float:
    """Return the mean over the sentences of one side. Raises NoValue."""
    if aspect not in sides:
        raise NoValue(ONE_SIDED)
    found = [_sentence(record, query, phase, style) for query in sides[aspect].queries]
    return math.fsum(found) / len(found)


def _sentence(record: CaseRecord, query: Query, phase: Phase, style: str) -> float:
    outcome = record.outcomes.get((phase, style, query.id))
    if outcome is None:
        raise NoValue(ABSENT)
    reply = log_probabilities(outcome.reply)
    try:
        return math.exp(-reply.logprobs[0] / max(reply.tokens[0], 1))
    except OverflowError:
        return math.inf


def _difference(record: CaseRecord, sides: Sides, phase: Phase, style: str) -> float:
    """Return PPL(CF) - PPL(F). Two infinite perplexities do not differ. Raises NoValue."""
    facts, counterfactuals = (_perplexity(record, sides, aspect, phase, style) for aspect in SIDES)
    return 0.0 if facts == counterfactuals else counterfactuals - facts


def _success(record: CaseRecord, sides: Sides, style: str) -> bool:
    if style not in _styles(record, "before", sides):
        raise NoValue(NOT_ASKED)
    if _failed(record, sides, style):
        return False
    before, after = (_difference(record, sides, phase, style) for phase in PHASES)
    return min(before, 0.0) > after


def _failed(record: CaseRecord, sides: Sides, style: str) -> bool:
    """Return whether an edited model with log-probabilities failed to score a sentence: the edit did not succeed."""
    outcomes = [record.outcomes.get(("after", style, query.id)) for side in sides.values() for query in side.queries]
    replies = [outcome.reply for outcome in outcomes if outcome is not None]
    return any(isinstance(reply, Failure) and not reply.unscored for reply in replies)


def _styles(record: CaseRecord, phase: Phase, sides: Sides) -> tuple[str, ...]:
    names = [query.id for probe in sides.values() for query in probe.queries]
    return tuple(s for s in record.styles(phase) if any((phase, s, name) in record.outcomes for name in names))
