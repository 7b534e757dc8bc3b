"""ReCoE's scores (Hua et al. 2024, section 4.3), from the judgments of one case.

================ ====== =============================================================================================
aspect           phase  value, for each question of the probe ``reasoning`` and each style
================ ====== =============================================================================================
qa               before 1 if the unedited model gives the answer A: QA accuracy, over all questions
correct-flip     after  1 if the edited model gives the counterfactual answer CA; only of questions that the unedited
                        model answered with A under the same prompt (where it was not asked with an editor's own
                        prompts, in the style ``before``). Where there is none, there is no score
kept             after  1 if the edited model still gives A; of the same questions. The rest is broken
counterfactual   after  1 if the edited model gives CA; of all questions, so that it counts insertions too
edit-wise        after  for each edit: 1 if its own fact is given
================ ====== =============================================================================================

``correct-flip`` and ``qa`` also stand by scheme (``correct-flip-sorting``), since the paper's average is the plain mean
over its six schemes. Each style has a denominator of its own: direct and chain-of-thought scores are not comparable
question by question.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    JUDGE_UNSURE,
    NOT_ON_RECORD,
    CaseRecord,
    NoValue,
    Outcome,
    Phase,
    Query,
    Value,
    Verdict,
)
from ke_plugin_correct_flip import CA, FLIP, KEPT, QA, SCHEMES, CorrectFlipConfig

REASONING = "reasoning"
WRONG_BEFORE = "the unedited model does not answer with A"


@frozen(kw_only=True)
class CorrectFlip:
    """Reads records; nothing else."""

    config: CorrectFlipConfig = field(factory=CorrectFlipConfig)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Every observation of this case."""
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
                kept = evolve(kept, value=float(verdict is Verdict.STALE))
            why = told.skipped_because or self._excluded(record, style, query)
            yield from _also(_only(evolve(told, aspect=FLIP), why), scheme)
            yield _only(kept, why)

    def _excluded(self, record: CaseRecord, style: str, query: Query) -> str:
        """Why the question is not in the denominator: the conditional that the paper's cells are fractions of."""
        asked = record.styles("before")
        same = style if style in asked else self.config.before
        try:
            verdict = _verdict(record, "before", same if same in asked else "".join(asked[:1]), query)
        except NoValue as why:
            return str(why)
        return "" if verdict is Verdict.RIGHT else WRONG_BEFORE


def _value(aspect: str, record: CaseRecord, phase: Phase, style: str, query: Query) -> Value:
    """1 if that answer is right at that moment; None with the reason."""
    made = Value(aspect=aspect, value=None, phase=phase, style=style)
    if record.skipped or (phase == "after" and not record.edited):
        return evolve(made, skipped_because=record.skipped or EDITS_WITHHELD)
    try:
        return evolve(made, value=float(_verdict(record, phase, style, query) is Verdict.RIGHT))
    except NoValue as why:
        return evolve(made, skipped_because=str(why))


def _verdict(record: CaseRecord, phase: Phase, style: str, query: Query) -> Verdict:
    outcome: Outcome | None = record.outcomes.get((phase, style, query.id))
    if outcome is None:
        raise NoValue(NOT_ON_RECORD)
    if outcome.judgment.verdict is Verdict.UNSURE:
        raise NoValue(JUDGE_UNSURE)
    return outcome.judgment.verdict


def _also(value: Value, scheme: str) -> Iterator[Value]:
    """The value, and once more under its scheme's name."""
    yield value
    if scheme in SCHEMES:
        yield evolve(value, aspect=f"{value.aspect}-{scheme}")


def _only(value: Value, why: str) -> Value:
    return evolve(value, value=None, skipped_because=why) if why else value


def _styles(record: CaseRecord, phase: Phase, query: Query) -> tuple[str, ...]:
    """The styles in which the query was asked; one without a name where it was not, so that it is counted."""
    return tuple(s for s in record.styles(phase) if (phase, s, query.id) in record.outcomes) or ("",)
