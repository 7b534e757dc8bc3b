"""Format numbers for people: percentages or quantities, intervals, durations, plain tables."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Column, Table
from rich.text import Text

from ke_core.results.sanitize import LONG, one_line, sanitize
from ke_core.spec.results import SHARE, MetricScore

NO_VALUE = "-"
GAP = 2
"""Spaces that a column of a plain table adds to its width."""
READABLE = 40
"""Minimum characters of a shortened column."""
SECONDS = "s"
SHORTEST_SECONDS = 0.0005
"""Shorter times are shown as 0."""


def format_score(score: MetricScore | None) -> str:
    """Return a percentage (``41.2``), or four digits of another measure; a dash if nothing was measured."""
    if score is None or score.value is None:
        return NO_VALUE
    return f"{100 * score.value:z.1f}" if score.measure == SHARE else _quantity(score.value, score.measure)


def shown_unit(measure: str) -> str:
    """Return the unit of the numbers of ``format_score``."""
    return "%" if measure == SHARE else measure


def format_interval(score: MetricScore | None) -> str:
    """Return ``38.1-44.3``, ``95.2-100`` or ``-5.0 to 1.0`` (percent), or quantities. Empty without an interval."""
    if score is None or score.interval is None:
        return ""
    ends = score.interval.low, score.interval.high
    return joined_ends(*(_bound(end) if score.measure == SHARE else _quantity(end, score.measure) for end in ends))


def no_interval(note: str) -> str:
    """Return why a score has no interval: the last part of its note."""
    return note.rpartition("; ")[2].removesuffix(", no interval")


def joined_ends(low: str, high: str) -> str:
    """Return a range: with ``to`` if an end has a minus sign or a negative exponent, else with a hyphen."""
    return f"{low} to {high}" if "-" in low + high else f"{low}-{high}"


def duration(seconds: float) -> str:
    """Return ``0.02 s``, ``4.1 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def count_noun(number: int, one: str, many: str = "") -> str:
    """Return ``1 case`` or ``3,000 cases``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _bound(value: float) -> str:
    """Return a percentage. 0 and 100 have no decimal, so that columns are narrow."""
    return f"{100 * value:.0f}" if value in (0.0, 1.0) else f"{100 * value:z.1f}"


def _quantity(value: float, measure: str) -> str:
    """Return ``0.01234``, ``1.000``, ``12.35`` or ``1,234``."""
    if measure == SECONDS and abs(value) < SHORTEST_SECONDS:
        return "0.000"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def literal(text: object, style: str = "") -> Text:
    """Return a rich text that shows ``text`` unchanged, without markup, links or terminal codes."""
    return Text(sanitize(str(text)), style=style)


def titled(title: str, table: Table) -> Group:
    """Return the table under a title line. Titles of rich are wrapped at the width of the table."""
    return Group(literal(title, "bold"), table)


class PlainTable(Table):
    """A table without frame that breaks a word only if the word alone is too long for the width.

    With ``shorten``, the name of a column, every row has one line: columns are dropped in the order of ``drop`` until
    that column has READABLE characters, and its texts are cut after a word.
    """

    shorten = ""
    drop: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Set the columns and their widths, then draw."""
        if self.shorten:
            yield self._one_line_rows(options.max_width)
            return
        texts = [_texts(column) for column in self.columns]
        wanted = [max(cell_len(line) for text in column for line in text.split("\n")) for column in texts]
        words = [max((cell_len(word) for text in column for word in text.split()), default=0) for column in texts]
        least = [
            width if column.no_wrap else word for column, width, word in zip(self.columns, wanted, words, strict=True)
        ]
        room = options.max_width - GAP * len(self.columns)
        for column, width in zip(self.columns, column_widths(least, wanted, room), strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)

    def _one_line_rows(self, width: int) -> PlainTable:
        columns = {heading: [one_line(cell, LONG) for cell in cells] for heading, *cells in map(_texts, self.columns)}
        widths = {heading: GAP + max(map(cell_len, [heading, *cells])) for heading, cells in columns.items()}
        wanted = min(READABLE + GAP, widths[self.shorten])
        for heading in self.drop:
            if width - sum(widths[name] for name in columns if name != self.shorten) < wanted:
                del columns[heading]
        room = width - GAP - sum(widths[name] for name in columns if name != self.shorten)
        columns[self.shorten] = [
            textwrap.shorten(cell, max(room, 4), placeholder=" ...", break_on_hyphens=False)
            for cell in columns[self.shorten]
        ]
        table = plain_table(*columns)
        for cells in zip(*columns.values(), strict=True):
            table.add_row(*map(literal, cells))
        return table


def column_widths(least: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """Divide ``room`` among columns: first the least widths, then evenly up to the wanted ones.

    If not even the least widths fit, the widest columns are narrowed.
    """
    widths = list(least)
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    while spare := max(0, room - sum(widths)):
        short = [at for at, width in enumerate(widths) if width < wanted[at]]
        if not short:
            break
        for at in short[:spare]:
            widths[at] += 1
    return widths


def plain_table(*headings: str) -> PlainTable:
    """Return an empty table that is readable in a file and without color."""
    table = PlainTable(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in headings:
        table.add_column(heading, overflow="fold", header_style="bold")
    return table


def _texts(column: Column) -> list[str]:
    """Return the heading and the cells."""
    return [cell.plain if isinstance(cell, Text) else str(cell) for cell in (column.header, *column.cells)]
