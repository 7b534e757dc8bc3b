"""Reading one turn of the model: what it wrote between two retrieved facts.

Only lines that were written to their end are read: the last one may have been cut by the token limit.
"""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Generated

SUBQUESTION, TENTATIVE = "Subquestion:", "Generated answer:"
FACT, FINAL = "Retrieved fact:", "Final answer:"


@frozen(kw_only=True)
class Turn:
    """``text`` is what is kept of the turn. It ends with a final answer, with a sub-question, or with neither."""

    text: str
    final: str | None = None
    subquestion: str | None = None


def last_lines(written: Generated) -> Turn:
    """As published: the last line is the final answer, or the last but one is the sub-question."""
    lines = [line.strip() for line in written.text.splitlines() if line.strip()]
    if written.finish == "length" or not lines:
        return Turn(text=written.text)
    if lines[-1].startswith(FINAL):
        return Turn(text=written.text, final=_rest(lines[-1], FINAL))
    if len(lines) > 1 and lines[-2].startswith(SUBQUESTION):
        return Turn(text=written.text, subquestion=_rest(lines[-2], SUBQUESTION))
    return Turn(text=written.text)


def first_step(written: Generated) -> Turn:
    """The first final answer, or the first sub-question with its tentative answer; the turn ends there.

    After a tentative answer the memory speaks. A small model that forgets to announce the fact writes on in
    the memory's place, and a sub-question that was asked would go without a look-up.
    """
    lines = written.text.splitlines(keepends=True)
    kept, asked = "", None
    for line in lines[:-1] if written.finish == "length" else lines:
        kept, words = kept + line, line.strip()
        if words.startswith(FINAL):
            return Turn(text=kept, final=_rest(words, FINAL))
        if asked is not None and words.startswith(TENTATIVE):
            return Turn(text=kept, subquestion=asked)
        if words:
            asked = _rest(words, SUBQUESTION) if words.startswith(SUBQUESTION) else None
    return Turn(text=written.text)


def _rest(line: str, label: str) -> str:
    return line.removeprefix(label).strip()
