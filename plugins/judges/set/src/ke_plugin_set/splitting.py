"""An answer to the things that it lists.

Separators are commas, semicolons, "and", "&", line breaks, and the numbers or bullets of a list. A name that itself
holds one ("Bosnia and Herzegovina", "Washington, D.C."), or a colon or a dash ("Star Trek: Picard"), stays whole if the
question's own sets know it, and a heading is none where such a name begins it or reaches over its colon.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

HEADING = re.compile(r"\A[^\n:,;]*[^\s:,;]:(?=\s)")  # "The languages are: ..."
MARK = re.compile(r"(?:^|(?<=\s))(?:\d{1,2}[.)]|[-*\u2022\u2013])(?=\s)", re.MULTILINE)
SEPARATOR = re.compile(r"[,;\n]|\band\b|&", re.IGNORECASE)
COLON = re.compile(r":(?=\s)")
TRIM = " \t\r\n.\"'`*\u201c\u201d\u2018\u2019"
ARTICLE = re.compile(r"\A(?:the|an?)\s+")
Span = tuple[int, int]


def items(text: str, names: Sequence[str]) -> list[str]:
    """What the text lists, in order, as it is spelled, repetitions included. ``names`` may hold separators."""
    kept = _whole(text, names)
    found: list[str] = []
    start = _heading(text, names, kept)
    for match in _borders(text, start, kept):
        found.append(text[start : match.start()])
        start = match.end()
    return [item for part in (*found, text[start:]) if (item := part.strip(TRIM))]


def normal(name: str) -> str:
    """Case folded, without an article before it, without what stands around it, and with single spaces."""
    plain = " ".join(unicodedata.normalize("NFC", name).strip(TRIM).casefold().split())
    return ARTICLE.sub("", plain) or plain


def begins(text: str, names: Iterable[str]) -> list[str]:
    """Which of the names, in their normal form, a text in its normal form begins with, up to a word border."""
    return [name for name in names if re.match(rf"{re.escape(name)}(?!\w)", text)]


def _heading(text: str, names: Iterable[str], kept: Iterable[Span]) -> int:
    """Where the list starts: behind its heading, if it has one."""
    match = HEADING.match(text)
    if match is None or any(start < match.end() < end for start, end in kept):
        return 0
    return 0 if begins(normal(match.group()), filter(None, map(normal, names))) else match.end()


def _borders(text: str, begin: int, kept: Sequence[Span]) -> Sequence[re.Match[str]]:
    """Where the list is cut: marks and separators that do not lie within a known name."""
    cuts = sorted((*MARK.finditer(text, begin), *SEPARATOR.finditer(text, begin)), key=lambda match: match.start())
    return [cut for cut in cuts if not any(start <= cut.start() < end for start, end in kept)]


def _whole(text: str, names: Iterable[str]) -> list[Span]:
    """Where names stand that would be cut; of two that overlap, the longer one."""
    inside = sorted({name for name in names if _cut(name)}, key=lambda name: (-len(name), name))
    if not inside:
        return []
    either = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, inside)) + r")(?!\w)", re.IGNORECASE)
    return [match.span() for match in either.finditer(text)]


def _cut(name: str) -> bool:
    return any(part.search(name) for part in (SEPARATOR, MARK, COLON))
