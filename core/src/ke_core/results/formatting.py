"""Format numbers for people: percentages or quantities, intervals, durations, plain tables."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ke_core.results.sanitize import sanitize
from ke_core.spec.results import SHARE, MetricScore

NO_VALUE = "-"
SECONDS = "s"
SHORTEST_SECONDS = 0.0005
"""Shorter times are shown as 0."""


def format_score(score: MetricScore | None) -> str:
    """``41.2``, in percent, or a quantity to four digits in its own measure; a dash where nothing was measured."""
    if score is None or score.value is None:
        return NO_VALUE
    return f"{100 * score.value:z.1f}" if score.measure == SHARE else _quantity(score.value, score.measure)


def shown_unit(measure: str) -> str:
    """The unit in which ``number`` shows a measure."""
    return "%" if measure == SHARE else measure


def format_interval(score: MetricScore | None) -> str:
    """``38.1-44.3`` or ``95.2-100``, in percent, or quantities; empty where there is none (one unit alone)."""
    if score is None or score.interval is None:
        return ""
    ends = score.interval.low, score.interval.high
    return "-".join(_bound(end) if score.measure == SHARE else _quantity(end, score.measure) for end in ends)


def duration(seconds: float) -> str:
    """``0.02 s``, ``4.1 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def count_noun(number: int, one: str, many: str = "") -> str:
    """``1 case``, ``3,000 cases``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _bound(value: float) -> str:
    """The ends of the scale without a decimal: a column is as narrow as it can be."""
    return f"{100 * value:.0f}" if value in (0.0, 1.0) else f"{100 * value:z.1f}"


def _quantity(value: float, measure: str) -> str:
    """``0.01234``, ``1.000``, ``12.35``, ``1,234``."""
    if measure == SECONDS and abs(value) < SHORTEST_SECONDS:
        return "0.000"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def literal(text: object, style: str = "") -> Text:
    """A rich text that shows ``text`` as it is: no markup is read in it, no link, no terminal code."""
    return Text(sanitize(str(text)), style=style)


def titled(title: str, table: Table) -> Group:
    """The table under a line of its own: rich's titles break where the table ends."""
    return Group(literal(title, "bold"), table)


def plain_table(*headings: str) -> Table:
    """An empty table without frame: fine in 100 columns, in a file, and without color."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in headings:
        table.add_column(heading, overflow="fold", header_style="bold")
    return table
