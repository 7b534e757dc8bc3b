"""Words of a text, and whether it holds a name: what metrics need where no judge has looked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

WORD = re.compile(r"\w+(?:['-]\w+)*")  # a hyphen joins: "Guinea" is no word of "Guinea-Bissau"


def words(text: str) -> tuple[str, ...]:
    """The words, letters' case, punctuation and a genitive's end aside (NFKC)."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return tuple(word.removesuffix("'s") for word in WORD.findall(plain))


def holds(text: str, names: Iterable[str]) -> bool:
    """Whether one of ``names`` stands in ``text``, word for word. A name without words stands nowhere (V4)."""
    said = words(text)
    return any(_within(words(name), said) for name in names)


def _within(name: tuple[str, ...], said: tuple[str, ...]) -> bool:
    size = len(name)
    return bool(size) and any(said[at : at + size] == name for at in range(len(said) - size + 1))
