"""The number of steps of a method, compared with the number of required steps.

============= =================================================================================================
aspect        value, for one wording of a question that is answered by sub-questions
============= =================================================================================================
steps         required steps: the case's tag ``steps`` (``3-step``: CompKE includes logical steps such as an
              intersection or a selection), otherwise the number of its single-hop questions
sub-questions number of distinct sub-questions of the method, plus logical steps that it states
omitted-steps fraction of the required steps without either: max(0, steps - sub-questions) / steps
too-few       1 if there were fewer sub-questions than steps
too-many      1 if there were more
============= =================================================================================================

Without an instruction to state logical steps, methods omit them, as CompKE reports for MeLLo's original prompt. Only
numbers are compared, not content. The metric ``retrieval`` shows whether the hops were answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ke_core.plugin import EDITS_WITHHELD, CaseRecord, Observed, Value, observed, words

TAKEN, LOOKED_UP = ("subquestion", "operation"), ("retrieved", "selection")
NO_STEPS = "the answer has no sub-questions"
ASPECTS = ("steps", "sub-questions", "omitted-steps", "too-few", "too-many")
NUMBER = re.compile(r"\d+")


class OmittedSteps:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield five observations for each wording of a question that depends on several facts."""
        for seen in observed(record, "after"):
            needed = _needed(record, seen)
            if needed > 1:
                yield from _counted(record, seen, needed)


def _counted(record: CaseRecord, seen: Observed, needed: int) -> Iterator[Value]:
    why = record.skipped or ("" if record.edited else EDITS_WITHHELD) or seen.wordless
    steps = () if seen.answer is None else seen.answer.steps
    asked = len({words(step.text) for step in steps if step.kind in TAKEN})
    why = why or ("" if any(step.kind not in LOOKED_UP for step in steps) else NO_STEPS)
    numbers = (needed, asked, max(0, needed - asked) / needed, asked < needed, asked > needed)
    for aspect, number in zip(ASPECTS, numbers, strict=True):
        yield seen.value(aspect, None if why else float(number), why)


def _needed(record: CaseRecord, seen: Observed) -> int:
    """Return the number of required steps; 0 if the question does not depend on several facts."""
    if not seen.query.hops:
        return 0
    found = NUMBER.match(record.case.tags.get("steps", ""))
    return int(found[0]) if found else len(seen.query.hops)
