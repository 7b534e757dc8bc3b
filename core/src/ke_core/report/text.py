"""Words from models and data files are untrusted: what is printed holds no markup and no terminal codes."""

from __future__ import annotations

import unicodedata

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

HIDDEN = frozenset({"Cc", "Cs"})  # Unicode categories: control characters, lone surrogates
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # text direction


def clean(text: str) -> str:
    """``text`` with its control and direction characters made visible; line breaks and tabs stay."""
    return "".join(_shown(mark) for mark in text)


def literal(text: object, style: str = "") -> Text:
    """A rich text that shows ``text`` as it is: no markup is read in it, no link, no terminal code."""
    return Text(clean(str(text)), style=style)


def one_line(text: str, most: int = 80) -> str:
    """``text`` cleaned, in one line of at most ``most`` characters."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."


def _shown(mark: str) -> str:
    if mark in TURNING or (mark not in "\n\t" and unicodedata.category(mark) in HIDDEN):
        return mark.encode("unicode_escape").decode("ascii")
    return mark


def plain_table(*headings: str, title: str = "") -> Table:
    """An empty table without frame: fine in 100 columns, in a file, and without colour."""
    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", header_style="bold")
    return table
