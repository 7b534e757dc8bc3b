"""Reading what the model wrote: the entity a question starts from, the relations it goes through, an answer.

Only what was written to its end is read. What cannot be read ends the question with a typed outcome.
"""

from __future__ import annotations

import re
from typing import Literal

from ke_core.plugin import Generated
from ke_memory.plugin import without_period

ARROW, END = "->", "answer"
BRACKETED = re.compile(r"\[([^\]\n]+)\]")


class WalkFailed(Exception):
    """The walk cannot go on: ``outcome`` says why, ``said`` is what the model wrote."""

    def __init__(self, outcome: Literal["unparsed", "hop-cap", "length"], said: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.said = said.strip()


class MalformedAnswer(WalkFailed):
    """An answer without its form (published): the answer of the hop before stands, if there is one."""


def lost(written: Generated, kind: type[WalkFailed] = WalkFailed) -> WalkFailed:
    """Nothing was found in ``written``: because it was cut, or because it is not there."""
    return kind("length" if written.finish == "length" else "unparsed", written.text)


def bracketed(written: Generated) -> str:
    """The bracketed span, up to an apostrophe (published); empty where there is none."""
    found = BRACKETED.search(written.text)
    return found[1].split("'")[0].strip() if found else ""


def named(written: Generated) -> str:
    """The bracketed span, or the whole line where a model forgets the brackets; without a possessive."""
    found = BRACKETED.search(written.text)
    if found is None and written.finish == "length":
        return ""
    name = found[1] if found else written.text.strip().strip("[]")
    return re.sub(r"['\u2019]s$", "", name.strip()).strip()


def relations(written: Generated, most: int) -> tuple[str, ...]:
    """The parenthesised items between arrows, up to ``answer``.

    Raises Lost where there is none, where there are more than ``most``, or where the end was cut off.
    """
    found: list[str] = []
    ended = written.finish != "length"
    for item in written.text.split(ARROW):
        words = item.strip()
        inside = words[1:-1].strip() if words.startswith("(") and words.endswith(")") else ""
        if (inside or words).casefold().startswith(END) and len(inside or words) <= len(END) + 1:
            ended = True
            break
        if not inside:
            break
        found.append(inside)
    if len(found) > most:
        raise WalkFailed("hop-cap", written.text)
    if not found or not ended:
        raise lost(written)
    return tuple(found)


def after_first_period(written: Generated) -> str:
    """What follows the first period and space (published). Raises Formless where nothing does, Lost where it is cut."""
    _sentence, _period, rest = written.text.partition(". ")
    if not rest.strip() or written.finish == "length":
        raise lost(written, WalkFailed if rest.strip() else MalformedAnswer)
    return rest.strip()


def after_slot(written: Generated) -> str:
    """What follows the sentence with its open place, so that a period in a name cuts nothing. Raises Lost.

    Where the sentence goes on behind the place ("{} is the author of Hamlet. Shakespeare"), what follows its period. A
    closing period is not part of an answer, unless it belongs to the name.
    """
    _sentence, slot, rest = written.text.partition("{}")
    if not slot or (". " in rest and rest.lstrip()[0].islower()):
        _sentence, _period, rest = (rest or written.text).partition(". ")
    else:
        rest = rest.lstrip(" .")
    name = without_period(rest)
    if not name or written.finish == "length":
        raise lost(written)
    return name
