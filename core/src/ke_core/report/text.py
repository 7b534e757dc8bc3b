"""Texts and tables for rich, in which no markup is read."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ke_core.report.clean import clean


def literal(text: object, style: str = "") -> Text:
    """A rich text that shows ``text`` as it is: no markup is read in it, no link, no terminal code."""
    return Text(clean(str(text)), style=style)


def plain_table(*headings: str, title: str = "") -> Table:
    """An empty table without frame: fine in 100 columns, in a file, and without colour."""
    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", header_style="bold")
    return table
