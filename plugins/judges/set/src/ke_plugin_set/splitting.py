"""Split an answer into the items that it lists.

Separators are commas, semicolons, "and", "&", line breaks, and the numbers or bullets of a list. A name with a
separator ("Bosnia and Herzegovina", "Washington, D.C."), a colon or a dash ("Star Trek: Picard") is kept whole if it is
in the question's sets. A heading is not dropped if such a name starts it or contains its colon.
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
    """Return the items of the text in order, in their original spelling, with repetitions. ``names`` may contain
    separators.
    """
    kept = _whole(text, names)
    found: list[str] = []
    start = _heading(text, names, kept)
    for match in _borders(text, start, kept):
        found.append(text[start : match.start()])
        start = match.end()
    return [item for part in (*found, text[start:]) if (item := part.strip(TRIM))]


def normal(name: str) -> str:
    """Fold case and apostrophes, and remove a leading article, surrounding punctuation and extra spaces."""
    plain = " ".join(unicodedata.normalize("NFC", name).strip(TRIM).casefold().replace("\u2019", "'").split())
    return ARTICLE.sub("", plain) or plain


def begins(text: str, names: Iterable[str]) -> list[str]:
    """Return the names (normalized) that a normalized text begins with, up to a word border."""
    return [name for name in names if re.match(rf"{re.escape(name)}(?!\w)", text)]


def _heading(text: str, names: Iterable[str], kept: Iterable[Span]) -> int:
    """Return the start of the list, after its heading if there is one."""
    match = HEADING.match(text)
    if match is None or any(start < match.end() < end for start, end in kept):
        return 0
    return 0 if begins(normal(match.group()), filter(None, map(normal, names))) else match.end()


def _borders(text: str, begin: int, kept: Sequence[Span]) -> Sequence[re.Match[str]]:
    """Return where to split: list markers and separators outside of known names."""
    cuts = sorted((*MARK.finditer(text, begin), *SEPARATOR.finditer(text, begin)), key=lambda match: match.start())
    return [cut for cut in cuts if not any(start <= cut.start() < end for start, end in kept)]


def _whole(text: str, names: Iterable[str]) -> list[Span]:
    """Return the positions of names that would be split; of two overlapping ones, the longer."""
    inside = sorted({name for name in names if _cut(name)}, key=lambda name: (-len(name), name))
    if not inside:
        return []
    either = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, inside)) + r")(?!\w)", re.IGNORECASE)
    return [match.span() for match in either.finditer(text)]


def _cut(name: str) -> bool:
    return any(part.search(name) for part in (SEPARATOR, MARK, COLON))
