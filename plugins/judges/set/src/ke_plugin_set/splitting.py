"""An answer to the things that it lists.

Separators are commas, semicolons, "and", "&", line breaks, and the numbers or bullets of a list. A name that itself
holds one ("Bosnia and Herzegovina", "Washington, D.C.") stays whole if the question's own sets know it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

HEADING = re.compile(r"\A[^\n:,;]*[^\s:,;]:(?=\s)")  # "The languages are: ..."
MARK = re.compile(r"(?:^|(?<=\s))(?:\d{1,2}[.)]|[-*\u2022\u2013])(?=\s)", re.MULTILINE)
SEPARATOR = re.compile(r"[,;\n]|\band\b|&", re.IGNORECASE)
TRIM = " \t\r\n.\"'`*\u201c\u201d\u2018\u2019"
ARTICLE = re.compile(r"\A(?:the|an?)\s+")


def items(text: str, names: Iterable[str]) -> list[str]:
    """What the text lists, in order, as it is spelt, repetitions included. ``names`` may hold separators."""
    body = HEADING.sub("", text, count=1)
    found: list[str] = []
    start = 0
    for match in _borders(body, names):
        found.append(body[start : match.start()])
        start = match.end()
    return [item for part in (*found, body[start:]) if (item := part.strip(TRIM))]


def normal(name: str) -> str:
    """Case folded, without an article before it, without what stands around it, and with single spaces."""
    plain = " ".join(unicodedata.normalize("NFC", name).strip(TRIM).casefold().split())
    return ARTICLE.sub("", plain) or plain


def _borders(body: str, names: Iterable[str]) -> Sequence[re.Match[str]]:
    """Where the list is cut: marks and separators that do not lie within a known name."""
    kept = _whole(body, names)
    cuts = sorted((*MARK.finditer(body), *SEPARATOR.finditer(body)), key=lambda match: match.start())
    return [cut for cut in cuts if not any(start <= cut.start() < end for start, end in kept)]


def _whole(body: str, names: Iterable[str]) -> list[tuple[int, int]]:
    """Where names with a separator in them stand; of two that overlap, the longer one."""
    inside = sorted({name for name in names if SEPARATOR.search(name)}, key=lambda name: (-len(name), name))
    if not inside:
        return []
    either = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, inside)) + r")(?!\w)", re.IGNORECASE)
    return [match.span() for match in either.finditer(body)]
