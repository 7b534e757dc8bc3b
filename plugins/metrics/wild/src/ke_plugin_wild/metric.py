"""The two protocols of "The Mirage of Model Editing" (Yang et al. 2025), side by side for the same run.

For the edit's own question (efficacy; the paper: reliability) and for another wording (paraphrase; generalization):

============ ====================================================================================================
aspect       value of a case
============ ====================================================================================================
-tokens      fraction of the target's tokens that are the most probable ones given the question and the target's
             tokens before them: teacher forcing, as earlier papers score
-all-tokens  1 if all of them are
-generated   1 if the judge accepts the answer that the model generates and ends by itself (WILD)
-inflation   the first minus the third
============ ====================================================================================================

Teacher forcing shows the model the content of the target (each token sees those before it) and its length (nothing
after its last token counts), and gives partial credit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import frozen

from ke_core.plugin import (
    EFFICACY,
    PARAPHRASE,
    PHASES,
    PROBABILITY,
    CaseRecord,
    Failure,
    NoValue,
    Phase,
    Probe,
    Query,
    Value,
    Verdict,
    expected,
    log_probabilities,
    measured,
    outcome_of,
    verdict_of,
    withheld,
)
from ke_plugin_wild import ALL_TOKENS, GENERATED, INFLATION, TOKENS

FORCED = "-teacher-forced"
NO_TARGET = "the dataset does not score the target"
NO_ANSWER = "the dataset does not ask for an answer"
UNTOLD = "the server does not return the most probable tokens"


class Wild:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield four values for each of the two questions, in each phase and style.

        Questions with different tags, for example languages, have values of their own.
        """
        for aspect in (EFFICACY, PARAPHRASE):
            for phase in PHASES:
                for tags in _tags(record, aspect):
                    both = _Protocols.of(record, aspect, phase, tags)
                    for style in both.styles:
                        yield from both.values(aspect, style)


def _tags(record: CaseRecord, aspect: str) -> list[Mapping[str, str]]:
    """Return the distinct tags of the probes of ``aspect``, in order."""
    found: list[Mapping[str, str]] = []
    for probe in record.case.probes:
        if probe.aspect in (aspect, aspect + FORCED, aspect + PROBABILITY) and probe.tags not in found:
            found.append(probe.tags)
    return found


@frozen(kw_only=True)
class _Protocols:
    """The probes of one aspect in one phase. ``forced``: they score the target. ``free``: an answer is generated."""

    record: CaseRecord
    phase: Phase
    tags: Mapping[str, str]
    forced: Sequence[Probe]
    free: Sequence[Probe]

    @classmethod
    def of(cls, record: CaseRecord, aspect: str, phase: Phase, tags: Mapping[str, str]) -> _Protocols:
        asked = [probe for probe in record.case.probes if probe.asked(phase) and probe.tags == tags]
        forced = [probe for probe in asked if probe.aspect in (aspect + FORCED, aspect + PROBABILITY)]
        free = [probe for probe in asked if probe.aspect == aspect]
        return cls(record=record, phase=phase, tags=tags, forced=forced, free=free)

    @property
    def styles(self) -> tuple[str, ...]:
        """The styles in which any of the probes was asked; an empty one if none was, but should have been."""
        probes = (*self.forced, *self.free)
        asked = dict.fromkeys(style for probe in probes for style in self.record.styles_of(probe, self.phase))
        return tuple(asked) or (("",) if probes else ())

    def values(self, aspect: str, style: str) -> Iterator[Value]:
        tokens = partial(self._forced, style, whole=False)
        generated = partial(self._generated, style)
        measures: dict[str, Callable[[], float]] = {
            TOKENS: tokens,
            ALL_TOKENS: partial(self._forced, style, whole=True),
            GENERATED: generated,
            INFLATION: lambda: tokens() - generated(),
        }
        for suffix, measure in measures.items():
            why = self.record.skipped or withheld(self.record, self.phase)
            yield measured(aspect + suffix, measure, why=why, phase=self.phase, style=style, tags=self.tags)

    def _forced(self, style: str, *, whole: bool) -> float:
        """Return the mean over the queries of the fraction of matching tokens; with ``whole``, of 1 if all match."""
        found = [self._matching(probe, style) for probe in self.forced]
        shares = [math.floor(share) if whole else share for some in found for share in some]
        if not shares:
            raise NoValue(NO_TARGET)
        return math.fsum(shares) / len(shares)

    def _matching(self, probe: Probe, style: str) -> Iterator[float]:
        """Yield the fraction of matching tokens of each query's target, also before editing.

        A failed request counts as no matching token, unless the method returns no log-probabilities at all.
        """
        for query in probe.queries:
            reply = outcome_of(self.record, self.phase, style, query.id).reply
            if isinstance(reply, Failure) and not reply.unscored:
                yield 0.0
                continue
            scored = log_probabilities(reply)
            place = query.options.index(query.gold.entities[0].label.strip())
            matches = scored.matches[place]
            if matches is None:
                raise NoValue(UNTOLD)
            yield matches / max(scored.tokens[place], 1)

    def _generated(self, style: str) -> float:
        """Return the fraction of probes whose answer the judge accepts."""
        right = [self._accepted(probe, style) for probe in self.free]
        if not right:
            raise NoValue(NO_ANSWER)
        return sum(right) / len(right)

    def _accepted(self, probe: Probe, style: str) -> bool:
        found = [
            verdict_of(outcome_of(self.record, self.phase, style, query.id)) is self._wanted(query, probe)
            for query in probe.queries
        ]
        return any(found) if probe.require == "any" else all(found)

    def _wanted(self, query: Query, probe: Probe) -> Verdict:
        """Return the verdict of the target, which is judged as the pre-edit answer before editing."""
        judged = expected(query, probe, self.phase, edited=True)
        return Verdict.RIGHT if judged.gold == query.gold else Verdict.PRE_EDIT
