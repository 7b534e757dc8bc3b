"""A server's words as they may be shown and kept: in whole characters, and without the key, which it may quote."""

from __future__ import annotations

import re
from collections.abc import Callable

Clean = Callable[[str], str]
SECRET = 8  # a shorter key is a placeholder ("EMPTY", "none") and may stand in any text
NOTHING = re.compile(r"(?!)")


def whole(text: str) -> str:
    """``text`` with the two halves of a character joined, and U+FFFD for a half alone, which UTF-8 has no bytes for.

    A limit of tokens may cut an emoji in two, and JSON can write the half that is left.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def quoted(key: str) -> re.Pattern[str]:
    r"""Finds ``key`` as it stands and as JSON may write it, also JSON within JSON: ``\/``, ``\u002f``, ``\\u002F``."""
    if len(key) < SECRET:
        return NOTHING
    return re.compile("".join(rf"\\{{0,9}}(?:{re.escape(one)}|(?i:u{ord(one):04x}))" for one in key))
