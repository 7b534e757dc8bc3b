"""Reading one turn of the model: what it wrote between two retrieved facts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ke_core.plugin import Generated
from ke_memory.plugin import Turn, unbroken_lines

QUESTION, SUBQUESTION, TENTATIVE = "Question:", "Subquestion:", "Generated answer:"
FACT, FINAL = "Retrieved fact:", "Final answer:"
WEIGHED = re.compile(r"\bis:\s*(\S.*)")
"""The self-check names its outcome behind "... answer here is:"; where it is worded otherwise, nothing is on record."""


def last_lines(written: Generated) -> Turn:
    """As published: the last line is the final answer, or the last but one is the sub-question.

    Only lines that were written to their end are read: the last one may have been cut by the token limit.
    """
    if written.finish == "length":
        return Turn(text=written.text)
    return _read_from_the_end(written.text)


def last_lines_of_any_turn(written: Generated) -> Turn:
    """As MQuAKE-Remastered's port: up to the next invented question, also where the token limit cut the last line.

    Of the final answer the period at its end is taken off, and only that (M2: "W. G. Sebald" stays whole).
    """
    text = written.text.split(f"\n{QUESTION} ", 1)[0]
    for line in text.splitlines():
        if line.strip().startswith(FINAL):
            final = _rest(line.strip(), FINAL).removesuffix(".")
            return Turn(text=text, final=final, answer=weighed(text.splitlines()))
    return _read_from_the_end(text)


def first_step(written: Generated) -> Turn:
    """The first final answer, or the first sub-question with its tentative answer; the turn ends there.

    After a tentative answer the memory speaks. A small model that forgets to announce the fact writes on in
    the memory's place, and a sub-question that was asked would go without a look-up. A line that may have been cut by
    the token limit is not read.
    """
    kept, asked = "", None
    for line in unbroken_lines(written):
        kept, words = kept + line, line.strip()
        if words.startswith(FINAL):
            return Turn(text=kept, final=_rest(words, FINAL), answer=weighed(kept.splitlines()))
        if asked is not None and words.startswith(TENTATIVE):
            return Turn(text=kept, subquestion=asked, answer=weighed(kept.splitlines()))
        if words:
            asked = _rest(words, SUBQUESTION) if words.startswith(SUBQUESTION) else None
    return Turn(text=written.text)


def weighed(lines: Sequence[str]) -> str:
    """What the self-check at the head of these lines says the answer is; empty where there is none."""
    for line in lines:
        words = line.strip()
        if words.startswith((SUBQUESTION, TENTATIVE, FINAL)):
            break
        found = WEIGHED.search(words)
        if found is not None:
            return found[1].strip()
    return ""


def _read_from_the_end(text: str) -> Turn:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[-1].startswith(FINAL):
        return Turn(text=text, final=_rest(lines[-1], FINAL), answer=weighed(lines))
    if len(lines) > 1 and lines[-2].startswith(SUBQUESTION):
        return Turn(text=text, subquestion=_rest(lines[-2], SUBQUESTION), answer=weighed(lines))
    return Turn(text=text)


def _rest(line: str, label: str) -> str:
    return line.removeprefix(label).strip()
