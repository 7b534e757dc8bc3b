"""ReCoE's scores (Hua et al. 2024, section 4.3), from the judgments of one case.

================ ====== =============================================================================================
aspect           phase  value, for each question of the probe ``reasoning`` and each style
================ ====== =============================================================================================
qa               before 1 if the unedited model gives the answer A: QA accuracy, over all questions
correct-flip     after  1 if the edited model gives the counterfactual answer CA; only for questions that the
                        unedited model answered with A in the same prompt (or in the style ``before``, if it did not
                        get the editor's own prompts). Without such questions there is no score
kept             after  1 if the edited model still gives A; for the same questions
counterfactual   after  1 if the edited model gives CA; for all questions, so it includes insertions
edit-wise        after  for each edit: 1 if its own fact is answered correctly
================ ====== =============================================================================================

``correct-flip`` and ``qa`` are also computed by scheme (``correct-flip-sorting``), because the paper's average is the
unweighted mean over its six schemes. Each style has its own denominator: direct and chain-of-thought scores are not
comparable question by question.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EFFICACY,
    CaseRecord,
    NoValue,
    Phase,
    Query,
    Value,
    Verdict,
    measured,
    outcome_of,
    verdict_of,
    withheld,
)
from ke_plugin_correct_flip import CA, FLIP, KEPT, QA, SCHEMES, CorrectFlipConfig

REASONING = "reasoning"
WRONG_BEFORE = "the unedited model does not answer with A"


@frozen
class CorrectFlip:
    """Computes values from records."""

    config: CorrectFlipConfig = field(factory=CorrectFlipConfig)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every observation of this case."""
        for probe in record.case.probes:
            for query in probe.queries:
                if probe.aspect == REASONING:
                    yield from self._reasoning(record, query)
                elif probe.aspect == EFFICACY:
                    for style in _styles(record, "after", query):
                        told = _value("edit-wise", record, "after", style, query)
                        yield evolve(told, unit=",".join(probe.edits))

    def _reasoning(self, record: CaseRecord, query: Query) -> Iterator[Value]:
        scheme = record.case.tags.get("scheme", "")
        for style in _styles(record, "before", query):
            yield from _also(_value(QA, record, "before", style, query), scheme)
        for style in _styles(record, "after", query):
            told = _value(CA, record, "after", style, query)
            yield told
            kept = evolve(told, aspect=KEPT)
            if told.value is not None:
                verdict = _verdict(record, "after", style, query)
                kept = evolve(kept, value=float(verdict is Verdict.PRE_EDIT))
            why = told.skipped_because or self._excluded(record, style, query)
            yield from _also(_only(evolve(told, aspect=FLIP), why), scheme)
            yield _only(kept, why)

    def _excluded(self, record: CaseRecord, style: str, query: Query) -> str:
        """Return why the question is not in the denominator, or an empty text."""
        asked = record.styles("before")
        same = style if style in asked else self.config.before
        try:
            verdict = _verdict(record, "before", same if same in asked else "".join(asked[:1]), query)
        except NoValue as why:
            return str(why)
        return "" if verdict is Verdict.RIGHT else WRONG_BEFORE


def _value(aspect: str, record: CaseRecord, phase: Phase, style: str, query: Query) -> Value:
    """Return 1 if the answer of that phase is right; None with the reason."""
    why = record.skipped or withheld(record, phase)
    right = lambda: _verdict(record, phase, style, query) is Verdict.RIGHT  # noqa: E731
    return measured(aspect, right, why=why, phase=phase, style=style)


def _verdict(record: CaseRecord, phase: Phase, style: str, query: Query) -> Verdict:
    return verdict_of(outcome_of(record, phase, style, query.id))


def _also(value: Value, scheme: str) -> Iterator[Value]:
    """Yield the value, and another for its scheme."""
    yield value
    if scheme in SCHEMES:
        yield evolve(value, aspect=f"{value.aspect}-{scheme}")


def _only(value: Value, why: str) -> Value:
    return evolve(value, value=None, skipped_because=why) if why else value


def _styles(record: CaseRecord, phase: Phase, query: Query) -> tuple[str, ...]:
    """Return the styles of the query's replies, or an empty style if there are none, so that it is counted."""
    return tuple(s for s in record.styles(phase) if (phase, s, query.id) in record.outcomes) or ("",)
