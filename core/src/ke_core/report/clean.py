"""Words from models and data files are untrusted: what is printed holds no terminal codes. Imports nothing."""

from __future__ import annotations

import re

# Control characters but for line breaks and tabs; lone surrogates.
HIDDEN = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff"
TURNING = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # text direction
UNSEEN = re.compile(f"[{HIDDEN}{TURNING}]")


def sanitize(text: str) -> str:
    """``text`` with its control and direction characters made visible; line breaks and tabs stay."""
    return UNSEEN.sub(_escape, text)


def one_line(text: str, most: int = 80) -> str:
    """``text`` cleaned, in one line of at most ``most`` characters."""
    flat = " ".join(sanitize(text).split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
