"""Remove terminal codes from texts of models and data files before they are printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Control characters except line breaks and tabs; lone surrogates.
HIDDEN = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff"
TURNING = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # text direction
UNSEEN = re.compile(f"[{HIDDEN}{TURNING}]")


def sanitize(text: str) -> str:
    """Escape control and direction characters of ``text``, except line breaks and tabs."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, most: int = 80) -> str:
    """Return ``text`` sanitized, in one line of at most ``most`` characters."""
    flat = " ".join(sanitize(text).split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."


LONG = 10_000  # maximum characters of a text in one line
MARKUP = re.compile(r"([\\`*_\[\]<>|~#&$@])")


def escaped(text: str) -> str:
    """Return ``text`` in one line, with the markup of Markdown and HTML escaped."""
    return MARKUP.sub(r"\\\1", one_line(text, LONG))


def table_row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table from escaped cells."""
    return f"| {' | '.join(cells)} |"
