"""The transcript of a question in MeLLo and its successors: turns of the model and lines of the memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from attrs import evolve, frozen

from ke_core.plugin import Answer, Generated, Hit, Step

OPERATION = "Logical operation:"
"""Prefix of a line in CompKE's worked examples that states a logical step and retrieves nothing."""


def complete_lines(written: Generated) -> list[str]:
    """Return the lines of a turn with their ends, without a last line that the token limit may have cut."""
    lines = written.text.splitlines(keepends=True)
    return lines[:-1] if written.finish == "length" and not written.text.endswith("\n") else lines


@frozen(kw_only=True)
class Turn:
    """What the model wrote between two look-ups. ``text`` is the part that is used.

    It ends with a final answer, with a sub-question, or with neither (both empty, also after a label only). ``answer``
    is the answer that it states for the previous sub-question. It is only recorded; the method continues with the text.
    """

    text: str
    final: str = ""
    subquestion: str = ""
    answer: str = ""


class Transcript:
    """A prompt that grows after ``start``, the prompt of the first call."""

    def __init__(self, start: str) -> None:
        self._start = start
        self._text = start
        self._steps: list[Step] = []

    @property
    def text(self) -> str:
        """The prompt of the next call."""
        return self._text

    def add_turn(self, turn: Turn, written: Generated) -> Answer | str:
        """Add a turn parsed from ``written``. Return its sub-question, or the answer if the question ends."""
        self._text += turn.text
        self._steps = with_answer(self._steps, turn.answer or turn.final)
        self._steps += [Step(kind="operation", text=line) for line in operations(turn.text)]
        if turn.final:
            self._steps.append(Step(kind="final", text=turn.final))
            return self._answer("answered", turn.final)
        if not turn.subquestion:
            self._steps.append(unparsed_step(turn.text))
            return self._answer(unparsed_outcome(written))
        return turn.subquestion

    def add_fact(self, subquestion: str, hits: Sequence[Hit], line: str) -> None:
        """Add a look-up and ``line``, the memory's answer."""
        self._steps.append(lookup_step(subquestion, hits))
        self._text = f"{self._text.rstrip()}\n{line}"

    def out_of_calls(self) -> Answer:
        """Return the answer of a question that needs more calls than allowed."""
        return self._answer("hop-cap")

    def _answer(self, outcome: Literal["answered", "unparsed", "hop-cap", "length"], text: str = "") -> Answer:
        return Answer(text=text, raw=self._text[len(self._start) :], steps=tuple(self._steps), outcome=outcome)


def operations(text: str) -> list[str]:
    """Return the logical steps stated in ``text``."""
    lines = (line.strip() for line in text.splitlines())
    return [line.removeprefix(OPERATION).strip() for line in lines if line.startswith(OPERATION)]


def unparsed_step(text: str) -> Step:
    """Return the step of a turn that cannot be parsed."""
    return Step(kind="unparsed", text=text.strip())


def unparsed_outcome(written: Generated) -> Literal["unparsed", "length"]:
    """Return the reason: the token limit, or a wrong format."""
    return "length" if written.finish == "length" else "unparsed"


INITIALS = re.compile(r"[^\W\d_]\.|(?:[^\W\d_]{1,2}\.){2,}")
ABBREVIATIONS = ("Jr.", "Sr.", "Inc.", "Co.", "Corp.", "Ltd.", "Bros.")
"""Ends of names that have their own period."""


def without_period(text: str) -> str:
    """Return ``text`` without the period that ends its sentence.

    A period that belongs to the name is kept: after an initial, in "F.C." and "S.p.A.", in "Jr." and "Inc.".
    """
    name = text.strip()
    last = name.split()[-1] if name else ""
    own = INITIALS.fullmatch(last) or last in ABBREVIATIONS
    if last.endswith("..") or (last.endswith(".") and not own):
        return name[:-1].rstrip()
    return name


def lookup_step(text: str, hits: Sequence[Hit], *, kind: str = "subquestion") -> Step:
    """Return the step of a look-up: the query and its results, best first."""
    return Step(kind=kind, text=text, retrieved=tuple(hit.id for hit in hits), scores=tuple(hit.score for hit in hits))


def with_answer(steps: Sequence[Step], answer: str) -> list[Step]:
    """Return ``steps`` with ``answer`` added to the last one."""
    return [*steps[:-1], evolve(steps[-1], answer=answer)] if steps else []
