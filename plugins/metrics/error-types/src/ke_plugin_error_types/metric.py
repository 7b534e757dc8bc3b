"""The error type of each wrong answer of the edited model.

========== ==========================================================================================================
aspect     value, 1 or 0, for each wrong answer; the three sum to 1
========== ==========================================================================================================
no-effect  the answer is, or contains, the pre-edit answer, which is now wrong
abstaining otherwise: it is empty, repeats the question, or contains one of the abstaining phrases
noise      otherwise
========== ==========================================================================================================

Right answers are excluded with that reason. So are errors that cannot be classified: if the data contain no pre-edit
answer for a consequence of the edit, an answer could be no effect or noise. In RippleEdits, only tests whose
conditions the unedited model meets count, after successful edits (sections 5.1 and 5.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    JUDGE_UNSURE,
    Answer,
    BadConfig,
    CaseRecord,
    Observed,
    Outcome,
    Value,
    Verdict,
    holds,
    observed,
    words,
)

TYPES = ("no-effect", "abstaining", "noise")
CHANGED = ("logical-generalization", "compositionality-1", "compositionality-2", "subject-aliasing")
"""Criteria of RippleEdits whose answers an edit changes. For many, the published files contain the new answers only."""
TESTS = (*CHANGED, "preservation", "relation-specificity")
RIGHT = "not an error: the answer is right"
NOT_TOLD = "the data contain no pre-edit answer"
NOT_TAKEN = "the edit did not succeed"
NOT_MET = "the unedited model fails a condition of the test"


@frozen(kw_only=True)
class ErrorTypes:
    """Computes values from records. ``phrases``: an answer with any of them is abstaining.

    ``own``: whether to include answers to the edits' own questions.
    """

    phrases: tuple[str, ...]
    own: bool = True

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield three observations for each answer of the edited model."""
        for seen in observed(record, "after"):
            if seen.probe.aspect == EFFICACY and not self.own:
                continue
            why = _excluded(record, seen)
            kind = "" if why or seen.answer is None else self.kind(seen, seen.answer)
            for name in TYPES:
                yield seen.value(name, None if why else float(name == kind), why)

    def kind(self, seen: Observed, answer: Answer) -> str:
        """Return the type of a wrong answer."""
        if seen.outcome is not None and seen.outcome.judgment.verdict is Verdict.PRE_EDIT:
            return "no-effect"
        text = answer.text or answer.raw
        if holds(text, _old_names(seen)):
            return "no-effect"
        if self.abstains(seen, text):
            return "abstaining"
        return "noise"

    def abstains(self, seen: Observed, text: str) -> bool:
        """Return whether the answer abstains: empty, only a repeated question, or with a phrase of the list."""
        said = words(text)
        return not said or any(said == words(asked) for asked in seen.query.texts) or holds(text, self.phrases)


def _old_names(seen: Observed) -> list[str]:
    """Return the names of the pre-edit answer that are not names of the right answer."""
    gold = {words(name) for entity in seen.query.gold.entities for name in entity.names}
    old = seen.query.pre_edit.entities if seen.query.pre_edit else ()
    return [name for entity in old for name in entity.names if words(name) not in gold]


def _excluded(record: CaseRecord, seen: Observed) -> str:
    """Return why the answer is excluded; empty if it is not."""
    if record.skipped or not record.edited:
        return record.skipped or EDITS_WITHHELD
    if seen.wordless or seen.outcome is None:
        return seen.wordless
    if seen.probe.aspect in TESTS and not _took(record, seen.style):
        return NOT_TAKEN
    if not all(_met(record, query.id, seen.style) for query in seen.probe.given):
        return NOT_MET
    verdict = seen.outcome.judgment.verdict
    if verdict in (Verdict.RIGHT, Verdict.UNSURE):
        return RIGHT if verdict is Verdict.RIGHT else JUDGE_UNSURE
    # Also if the answer abstains: counted without the other errors of such tests, abstaining would look more frequent.
    return NOT_TOLD if seen.query.pre_edit is None and seen.probe.aspect in CHANGED else ""


def _took(record: CaseRecord, style: str) -> bool:
    """Return whether every edit's own fact is answered with the new object."""
    own = [query.id for probe in record.case.probes if probe.aspect == EFFICACY for query in probe.queries]
    return all(_right(record.outcomes.get(("after", style, name))) for name in own)


def _met(record: CaseRecord, query: str, style: str) -> bool:
    """Return whether the unedited model is right, in the same style or in its own if the editor has own prompts."""
    found = (record.outcomes.get(("before", name, query)) for name in (style, *record.styles("before")))
    return _right(next((outcome for outcome in found if outcome is not None), None))


def _right(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.judgment.verdict is Verdict.RIGHT


V1 = (
    "unknown", "not known", "is a mystery", "unclear", "no one", "nobody", "i don't know", "i do not know",
    "don't know", "cannot be determined", "can't be determined", "cannot be answered", "cannot determine",
    "can't determine", "not specified", "unspecified", "not mentioned", "not stated", "not provided", "not given",
    "no information", "not enough information", "insufficient information", "not sure", "unsure", "uncertain",
    "undisclosed", "not available", "n/a", "unable to", "cannot say", "can't say", "no answer", "undetermined",
    "not been determined", "not certain", "unidentified",
)  # fmt: skip
LISTS = {"v1": V1}


def read(source: str) -> tuple[str, ...]:
    """Read the phrases of a version or of a file. Raises BadConfig if there are none."""
    if source in LISTS:
        return LISTS[source]
    try:
        lines = Path(source).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"error-types.phrases: cannot read {source}", hint=f"pass a UTF-8 text file, or {', '.join(LISTS)}"
        ) from error
    found = tuple(" ".join(line.split()) for line in lines if words(line))
    if not found:
        raise BadConfig(f"error-types.phrases: {source} contains no phrase", hint="write one phrase per line")
    return found
