"""Text and table rows for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ke_core.report.clean import one_line

LONG = 10_000  # of a text in one line: nothing is cut
MARKUP = re.compile(r"([\\`*_\[\]<>|~#&$@])")


def escaped(text: str) -> str:
    """``text`` in one line, without anything that Markdown or HTML would read in it."""
    return MARKUP.sub(r"\\\1", one_line(text, LONG))


def table_row(cells: Sequence[str]) -> str:
    """A line of a table: cells that are escaped already."""
    return f"| {' | '.join(cells)} |"
