"""Prompts filled in, and what the model writes read strictly: what is not a label of the set is none."""

from __future__ import annotations

import re
from collections.abc import Sequence

PLACE = re.compile(r"\{(\w+)\}")
MARKED = re.compile(r"^[\s*#_]*label[\s*_]*:(.*)$", re.IGNORECASE | re.MULTILINE)
LISTED = re.compile(r"^\s*(?:[-*\u2022\u2013]|\d{1,3}[.)])\s+(\S.*?)\s*$")
AROUND = " \t*_`\"'.<>[]"


def filled(template: str, **values: str) -> str:
    """``template`` with its places filled in, each value in one line.

    In one pass, so that nothing in a value is taken for a place; in one line, so that a value cannot add lines such as
    a label of its own.
    """
    return PLACE.sub(lambda place: " ".join(values[place[1]].split()) if place[1] in values else place[0], template)


def label_in(written: str, labels: Sequence[str]) -> str:
    """The label after the last ``Label:``; empty where there is none, or what stands there is not of the set."""
    found = MARKED.findall(written)
    given = re.sub(r"[\s_]+", "-", found[-1].strip(AROUND).casefold()) if found else ""
    return given if given in labels else ""


def listed(written: str, *, cut: bool) -> tuple[str, ...]:
    """The items of the list that ``written`` begins with, each once, in order. Without the last one where the end
    of the text was ``cut`` off.
    """
    items: list[str] = []
    for line in written.strip().splitlines():
        match = LISTED.match(line)
        if match is None:
            break
        items.append(match[1])
    else:
        if cut:
            items = items[:-1]
    return tuple(dict.fromkeys(items))
