"""Parse one turn: the text that the model writes between two retrieved facts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ke_core.plugin import Generated
from ke_memory.plugin import Turn, complete_lines

QUESTION, SUBQUESTION, TENTATIVE = "Question:", "Subquestion:", "Generated answer:"
FACT, FINAL = "Retrieved fact:", "Final answer:"
CHECKED_ANSWER = re.compile(r"\bis:\s*(\S.*)")
"""The self-check states its result after "... answer here is:". Other wordings are not recorded."""


def last_lines(written: Generated) -> Turn:
    """As published: the last line is the final answer, or the second to last is the sub-question.

    A turn that the token limit cut is not parsed.
    """
    if written.finish == "length":
        return Turn(text=written.text)
    return _read_from_the_end(written.text)


def last_lines_of_any_turn(written: Generated) -> Turn:
    """As in MQuAKE-Remastered's port: parse up to the next invented question, even if the token limit cut the turn.

    Only the period at the end of the final answer is removed ("W. G. Sebald" stays complete).
    """
    text = written.text.split(f"\n{QUESTION} ", 1)[0]
    for line in text.splitlines():
        if line.strip().startswith(FINAL):
            final = _rest(line.strip(), FINAL).removesuffix(".")
            return Turn(text=text, final=final, answer=checked_answer(text.splitlines()))
    return _read_from_the_end(text)


def first_step(written: Generated) -> Turn:
    """Return the first final answer, or the first sub-question with its tentative answer, and end the turn there.

    The memory's fact follows a tentative answer. A small model that forgets to announce the fact writes one itself;
    without this cut, its sub-question would not be looked up. A line that the token limit may have cut is not parsed.
    """
    kept, asked = "", None
    for line in complete_lines(written):
        kept, words = kept + line, line.strip()
        if words.startswith(FINAL):
            return Turn(text=kept, final=_rest(words, FINAL), answer=checked_answer(kept.splitlines()))
        if asked is not None and words.startswith(TENTATIVE):
            return Turn(text=kept, subquestion=asked, answer=checked_answer(kept.splitlines()))
        if words:
            asked = _rest(words, SUBQUESTION) if words.startswith(SUBQUESTION) else None
    return Turn(text=written.text)


def checked_answer(lines: Sequence[str]) -> str:
    """Return the answer that the self-check at the start of these lines states; empty if there is none."""
    for line in lines:
        words = line.strip()
        if words.startswith((SUBQUESTION, TENTATIVE, FINAL)):
            break
        found = CHECKED_ANSWER.search(words)
        if found is not None:
            return found[1].strip()
    return ""


def _read_from_the_end(text: str) -> Turn:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[-1].startswith(FINAL):
        return Turn(text=text, final=_rest(lines[-1], FINAL), answer=checked_answer(lines))
    if len(lines) > 1 and lines[-2].startswith(SUBQUESTION):
        return Turn(text=text, subquestion=_rest(lines[-2], SUBQUESTION), answer=checked_answer(lines))
    return Turn(text=text)


def _rest(line: str, label: str) -> str:
    return line.removeprefix(label).strip()
