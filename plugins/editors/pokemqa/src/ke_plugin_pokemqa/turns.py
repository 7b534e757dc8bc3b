"""Reading one turn of the model: what it wrote between two look-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from ke_core.plugin import Generated
from ke_memory.plugin import Turn, operations, unbroken_lines, without_period

QUESTION, SUBQUESTION = "Question:", "Subquestion:"
FACT, FINAL = "Generated answer:", "Final answer:"
REACHED = " is: "
"""Ends the sentence in which a turn names the entity that the fact led to."""
LINES = 3
"""Of a turn, as published: its own answer if no edit was found, the entity reached, the next sub-question."""


def last_line(written: Generated) -> Turn:
    """As published: the last line is the final answer; or there are at most three, the last a sub-question."""
    lines = [line.strip() for line in written.text.splitlines() if line.strip()]
    if written.finish == "length" or not lines:
        return Turn(text=written.text)
    return _turn(written.text, lines, within=LINES)


def first_step(written: Generated) -> Turn:
    """The first final answer or sub-question; the turn ends there. A line that the token limit cut does not count."""
    lines = unbroken_lines(written)
    for end, line in enumerate(lines, start=1):
        if line.strip().startswith((SUBQUESTION, FINAL)):
            return _turn("".join(lines[:end]), [kept.strip() for kept in lines[:end]], within=len(lines))
    return Turn(text=written.text)


def reached(lines: Sequence[str]) -> str:
    """The entity that the first such line says is reached; empty where none does."""
    return next((without_period(line.rpartition(REACHED)[2]) for line in lines if REACHED in line), "")


def _turn(text: str, lines: list[str], *, within: int) -> Turn:
    found = reached(lines[:-1])
    if lines[-1].startswith(FINAL):
        return Turn(text=text, final=lines[-1].removeprefix(FINAL).strip(), answer=found)
    counted = len(lines) - len(operations(text))  # the published demonstrations have no logical steps
    if lines[-1].startswith(SUBQUESTION) and counted <= within:
        return Turn(text=text, subquestion=lines[-1].removeprefix(SUBQUESTION).strip(), answer=found)
    return Turn(text=text)


@frozen(kw_only=True)
class LoopProfile:
    """Where the published loop and a sound one differ.

    ``unknown``: what ends the prompt where no edit is in scope. Published, it lacks its colon, so that the prompt's
    form tells whether an edit was found (M10). ``stop``: an untuned model goes on to invent the next example.
    """

    read: Callable[[Generated], Turn]
    unknown: str
    stop: tuple[str, ...]


WAYS: Mapping[str, LoopProfile] = {
    "published": LoopProfile(read=last_line, unknown="Generated answer", stop=(FACT, "\n\n")),
    "fixed": LoopProfile(read=first_step, unknown=FACT, stop=(FACT, "\n\n", f"\n{QUESTION}")),
}
