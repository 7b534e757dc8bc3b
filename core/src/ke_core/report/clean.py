"""Words from models and data files are untrusted: what is printed holds no terminal codes. Imports nothing."""

from __future__ import annotations

import unicodedata

HIDDEN = frozenset({"Cc", "Cs"})  # Unicode categories: control characters, lone surrogates
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # text direction


def clean(text: str) -> str:
    """``text`` with its control and direction characters made visible; line breaks and tabs stay."""
    return "".join(_shown(mark) for mark in text)


def one_line(text: str, most: int = 80) -> str:
    """``text`` cleaned, in one line of at most ``most`` characters."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."


def _shown(mark: str) -> str:
    if mark in TURNING or (mark not in "\n\t" and unicodedata.category(mark) in HIDDEN):
        return mark.encode("unicode_escape").decode("ascii")
    return mark
