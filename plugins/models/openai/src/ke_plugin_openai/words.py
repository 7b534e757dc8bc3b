"""Clean a server's text before it is shown or saved: whole characters, and no key, which the server may quote."""

from __future__ import annotations

import re
from collections.abc import Callable

Clean = Callable[[str], str]
SECRET = 8  # a shorter key is a placeholder ("EMPTY", "none") and may occur in any text
NOTHING = re.compile(r"(?!)")


def whole(text: str) -> str:
    """Join surrogate pairs in ``text``, and replace a lone surrogate by U+FFFD, because UTF-8 cannot encode it.

    A token limit may split an emoji, and JSON can contain the half that is left.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def quoted(key: str) -> re.Pattern[str]:
    r"""Return a pattern for ``key`` as plain text and as JSON may write it, also nested: ``\/``, ``\u002f``,
    ``\\u002F``.
    """
    if len(key) < SECRET:
        return NOTHING
    return re.compile("".join(rf"\\{{0,9}}(?:{re.escape(one)}|(?i:u{ord(one):04x}))" for one in key))
