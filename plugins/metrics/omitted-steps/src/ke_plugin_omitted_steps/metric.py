"""How many steps a method took, against those that the question takes.

============= =================================================================================================
aspect        value, for one wording of a question that is answered by sub-questions
============= =================================================================================================
steps         how many steps it takes: the case's tag ``steps`` (``3-step``: CompKE counts the logical ones, an
              intersection or a selection, too), else its single-hop questions
sub-questions how many different ones the method asked, and logical steps that it spelled out; the same one again is
              no further step
omitted-steps the share of the steps for which there was neither: max(0, steps - sub-questions) / steps
too-few       1 if there were fewer than steps
too-many      1 if there were more
============= =================================================================================================

Where a method is not told to spell a logical step out, it drops it: that is the omission CompKE reports of MeLLo's
original prompt. Numbers are compared, not contents: three idle sub-questions omit nothing here. Answers that
arrive nowhere are seen by the metric ``retrieval`` (hops answered).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ke_core.plugin import EDITS_WITHHELD, CaseRecord, Observed, Value, observed, words

TAKEN = ("subquestion", "operation")
NO_STEPS = "the answer did not go by sub-questions"
ASPECTS = ("steps", "sub-questions", "omitted-steps", "too-few", "too-many")
NUMBER = re.compile(r"\d+")


class OmittedSteps:
    """Reads records; nothing else."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Five observations for each wording of a question of several facts."""
        for seen in observed(record, "after"):
            needed = _needed(record, seen)
            if needed > 1:
                yield from _counted(record, seen, needed)


def _counted(record: CaseRecord, seen: Observed, needed: int) -> Iterator[Value]:
    why = record.skipped or ("" if record.edited else EDITS_WITHHELD) or seen.wordless
    steps = () if seen.answer is None else seen.answer.steps
    asked = len({words(step.text) for step in steps if step.kind in TAKEN})
    why = why or ("" if steps else NO_STEPS)
    numbers = (needed, asked, max(0, needed - asked) / needed, asked < needed, asked > needed)
    for aspect, number in zip(ASPECTS, numbers, strict=True):
        yield seen.value(aspect, None if why else float(number), why)


def _needed(record: CaseRecord, seen: Observed) -> int:
    """How many steps the question takes; 0 for one that is no question of several facts."""
    if not seen.query.hops:
        return 0
    found = NUMBER.match(record.case.tags.get("steps", ""))
    return int(found[0]) if found else len(seen.query.hops)
