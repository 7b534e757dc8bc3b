"""Parse what the model writes: the entity that a question starts from, its relations, an answer.

Truncated text is not parsed. Text that cannot be parsed ends the question with a typed outcome.
"""

from __future__ import annotations

import re
from typing import Literal

from ke_core.plugin import Generated
from ke_memory.plugin import without_period

ARROW, END = "->", "answer"
BRACKETED = re.compile(r"\[([^\]\n]+)\]")


class WalkFailed(Exception):
    """The walk cannot continue. ``outcome`` is the reason, ``text`` what the model wrote."""

    def __init__(self, outcome: Literal["unparsed", "hop-cap", "length"], text: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.text = text.strip()


class MalformedAnswer(WalkFailed):
    """An answer in the wrong format (published): the answer of the previous hop is used, if there is one."""


def walk_failure(written: Generated, kind: type[WalkFailed] = WalkFailed) -> WalkFailed:
    """Return the error for missing content in ``written``: truncated, or in the wrong format."""
    return kind("length" if written.finish == "length" else "unparsed", written.text)


def bracketed(written: Generated) -> str:
    """Return the bracketed span up to an apostrophe (published); empty if there is none."""
    found = BRACKETED.search(written.text)
    return found[1].split("'")[0].strip() if found else ""


def named(written: Generated) -> str:
    """Return the bracketed span, or the whole line without brackets; without a possessive."""
    found = BRACKETED.search(written.text)
    if found is None and written.finish == "length":
        return ""
    name = found[1] if found else written.text.strip().strip("[]")
    return re.sub(r"['\u2019]s$", "", name.strip()).strip()


def relations(written: Generated, most: int) -> tuple[str, ...]:
    """Return the parenthesized items between arrows, up to ``answer``.

    Raises WalkFailed if there is none, if there are more than ``most``, or if the end is truncated.
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
        raise walk_failure(written)
    return tuple(found)


def after_first_period(written: Generated) -> str:
    """Return the text after the first period and space (published). Raises WalkFailed, MalformedAnswer."""
    _sentence, _period, rest = written.text.partition(". ")
    if not rest.strip() or written.finish == "length":
        raise walk_failure(written, WalkFailed if rest.strip() else MalformedAnswer)
    return rest.strip()


def after_slot(written: Generated) -> str:
    """Return the text after the sentence's slot, so that a period in a name cuts nothing. Raises WalkFailed.

    If the sentence continues after the slot ("{} is the author of Hamlet. Shakespeare"), return the text after its
    period. A closing period is not part of an answer, unless it belongs to the name.
    """
    _sentence, slot, rest = written.text.partition("{}")
    if not slot or (". " in rest and rest.lstrip()[0].islower()):
        _sentence, _period, rest = (rest or written.text).partition(". ")
    else:
        rest = rest.lstrip().removeprefix(". ")
    name = without_period(rest)
    if not name or written.finish == "length":
        raise walk_failure(written)
    return name
