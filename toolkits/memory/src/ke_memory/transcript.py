"""A question as MeLLo and its followers keep it: one text, turns of the model and lines of the memory in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import evolve, frozen

from ke_core.plugin import Answer, Generated, Hit, Step

OPERATION = "Logical operation:"
"""Begins the line in which CompKE's worked examples spell a logical step out: it looks nothing up."""


def unbroken_lines(written: Generated) -> list[str]:
    """The lines of a turn, each with its end; without the last one where the token limit may have cut it."""
    lines = written.text.splitlines(keepends=True)
    return lines[:-1] if written.finish == "length" and not written.text.endswith("\n") else lines


@frozen(kw_only=True)
class Turn:
    """What the model wrote between two look-ups. ``text`` is what is kept of it.

    It ends with a final answer, with a sub-question, or with neither: both are empty, also behind a label alone.
    ``answer`` is what it says that the sub-question before it came to: for the record alone, the method goes on with
    whatever the model wrote.
    """

    text: str
    final: str = ""
    subquestion: str = ""
    answer: str = ""


class Transcript:
    """Grows behind ``start``, the prompt of the first call."""

    def __init__(self, start: str) -> None:
        self._start = start
        self._text = start
        self._steps: list[Step] = []

    @property
    def text(self) -> str:
        """The prompt of the next call."""
        return self._text

    def take(self, turn: Turn, written: Generated) -> Answer | str:
        """Add a turn that was read from ``written``: its sub-question, or the answer if the question ends with it."""
        self._text += turn.text
        self._steps = with_answer(self._steps, turn.answer or turn.final)
        self._steps += [Step(kind="operation", text=line) for line in operations(turn.text)]
        if turn.final:
            self._steps.append(Step(kind="final", text=turn.final))
            return self._answer("answered", turn.final)
        if not turn.subquestion:
            self._steps.append(unread(turn.text))
            return self._answer(unread_outcome(written))
        return turn.subquestion

    def tell(self, subquestion: str, hits: Sequence[Hit], line: str) -> None:
        """Add what was looked up, and ``line``, in which the memory says what it found."""
        self._steps.append(lookup_step(subquestion, hits))
        self._text = f"{self._text.rstrip()}\n{line}"

    def capped(self) -> Answer:
        """What a question comes to that took too many calls."""
        return self._answer("hop-cap")

    def _answer(self, outcome: Literal["answered", "unparsed", "hop-cap", "length"], text: str = "") -> Answer:
        return Answer(text=text, raw=self._text[len(self._start) :], steps=tuple(self._steps), outcome=outcome)


def operations(text: str) -> list[str]:
    """The logical steps that are spelled out in it."""
    lines = (line.strip() for line in text.splitlines())
    return [line.removeprefix(OPERATION).strip() for line in lines if line.startswith(OPERATION)]


def unread(text: str) -> Step:
    """The step of a turn that could not be read."""
    return Step(kind="unparsed", text=text.strip())


def unread_outcome(written: Generated) -> Literal["unparsed", "length"]:
    """Why it could not: the token limit cut it off, or it has not the form that was asked for."""
    return "length" if written.finish == "length" else "unparsed"


SHORTENED = ("Jr.", "Sr.", "Inc.", "Co.", "Corp.", "Ltd.", "Bros.")
"""Ends of names that are written with a period of their own."""


def without_period(text: str) -> str:
    """``text`` without the period that closes its sentence.

    One that belongs to the name stays (M2): after an initial, in "F.C." and "S.p.A.", in "Jr." and "Inc.".
    """
    name = text.strip()
    last = name.split()[-1] if name else ""
    own = (len(last) == 2 and last[0].isalpha()) or "." in last[:-1] or last in SHORTENED
    if last.endswith("..") or (last.endswith(".") and not own):
        return name[:-1].rstrip()
    return name


def lookup_step(text: str, hits: Sequence[Hit], *, kind: str = "subquestion") -> Step:
    """What was asked of the memory, and what it gave, best first."""
    return Step(kind=kind, text=text, retrieved=tuple(hit.id for hit in hits), scores=tuple(hit.score for hit in hits))


def with_answer(steps: Sequence[Step], answer: str) -> list[Step]:
    """``steps``, the last of them with what the method took for its answer."""
    return [*steps[:-1], evolve(steps[-1], answer=answer)] if steps else []
