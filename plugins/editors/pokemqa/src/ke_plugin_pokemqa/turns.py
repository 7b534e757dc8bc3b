"""Parse one turn: the text that the model writes between two look-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from ke_core.plugin import Generated
from ke_memory.plugin import Turn, complete_lines, operations, without_period

QUESTION, SUBQUESTION = "Question:", "Subquestion:"
FACT, FINAL = "Generated answer:", "Final answer:"
REACHED = " is: "
"""Ends the sentence in which a turn names the entity that the fact leads to."""
LINES = 3
"""Maximum lines of a turn, as published: its own answer without an edit, the entity, the next sub-question."""


def last_line(written: Generated) -> Turn:
    """As published: the last line is the final answer, or the last of at most three is a sub-question."""
    lines = [line.strip() for line in written.text.splitlines() if line.strip()]
    if written.finish == "length" or not lines:
        return Turn(text=written.text)
    return _turn(written.text, lines, within=LINES)


def first_step(written: Generated) -> Turn:
    """Return the first final answer or sub-question, and end the turn there. Skip a line cut by the token limit."""
    lines = complete_lines(written)
    for end, line in enumerate(lines, start=1):
        if line.strip().startswith((SUBQUESTION, FINAL)):
            return _turn("".join(lines[:end]), [kept.strip() for kept in lines[:end]], within=len(lines))
    return Turn(text=written.text)


def reached_entity(lines: Sequence[str]) -> str:
    """Return the entity that the first such line names; empty if there is none."""
    return next((without_period(line.rpartition(REACHED)[2]) for line in lines if REACHED in line), "")


def _turn(text: str, lines: list[str], *, within: int) -> Turn:
    found = reached_entity(lines[:-1])
    if lines[-1].startswith(FINAL):
        return Turn(text=text, final=lines[-1].removeprefix(FINAL).strip(), answer=found)
    length = len(lines) - len(operations(text))  # the published demonstrations have no logical steps
    if lines[-1].startswith(SUBQUESTION) and length <= within:
        return Turn(text=text, subquestion=lines[-1].removeprefix(SUBQUESTION).strip(), answer=found)
    return Turn(text=text)


@frozen(kw_only=True)
class LoopProfile:
    """A version of the loop.

    ``unknown``: end of the prompt without an edit in scope. The published one has no colon, so the form of the prompt
    reveals whether there is an edit. ``stop``: without a stop, a model without instruction tuning invents the next
    example.
    """

    read: Callable[[Generated], Turn]
    unknown: str
    stop: tuple[str, ...]


LOOPS: Mapping[str, LoopProfile] = {
    "paper": LoopProfile(read=last_line, unknown="Generated answer", stop=(FACT, "\n\n")),
    "default": LoopProfile(read=first_step, unknown=FACT, stop=(FACT, "\n\n", f"\n{QUESTION}")),
}
