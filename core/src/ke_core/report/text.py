"""Texts and tables for rich, in which no markup is read."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ke_core.report.clean import sanitize


def literal(text: object, style: str = "") -> Text:
    """A rich text that shows ``text`` as it is: no markup is read in it, no link, no terminal code."""
    return Text(sanitize(str(text)), style=style)


def titled(title: str, table: Table) -> Group:
    """The table under a line of its own: rich's titles break where the table ends."""
    return Group(literal(title, "bold"), table)


def plain_table(*headings: str) -> Table:
    """An empty table without frame: fine in 100 columns, in a file, and without colour."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in headings:
        table.add_column(heading, overflow="fold", header_style="bold")
    return table
