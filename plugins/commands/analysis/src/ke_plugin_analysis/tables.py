"""Draw score tables for a terminal: a row for each run, a column for each aspect, no number without its n."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ke_core.app import (
    NO_VALUE,
    ColumnHeader,
    Grid,
    Reported,
    format_interval,
    format_score,
    literal,
    plain_table,
    score_grids,
    titled,
)
from ke_core.plugin import MetricScore
from ke_plugin_analysis.footer import footer
from ke_plugin_analysis.slices import slice_grids

NARROW = 9
"""Characters of an interval, and so of a column: seven of them fit next to their labels in 100."""


def score_tables(runs: Sequence[Reported]) -> list[Group]:
    """Return the main tables, one for each metric. A cell has the number and its 95% interval.

    n is in the heading if it is the same in all rows.
    """
    return [_drawn(grid) for grid in score_grids(runs)]


def slice_tables(runs: Sequence[Reported]) -> list[Group]:
    """Return a table for each tag: a row for each value and run, for edited models only."""
    return [_drawn_slice(grid) for grid in slice_grids(runs)]


def _drawn(grid: Grid) -> Group:
    table = plain_table(*grid.names)
    for head in grid.heads:
        _add_numbers(table, head)
    for names, line in grid.thinned():
        cells = [_cell(score, with_n=head.n is None) for score, head in zip(line.scores, grid.heads, strict=True)]
        table.add_row(*map(literal, names), *cells)
    return titled(grid.title, table)


def _drawn_slice(grid: Grid) -> Group:
    table = plain_table(*grid.names)
    for head in grid.heads:
        _add_numbers(table, head)
    scores = [score for line in grid.lines for score in line.scores if score is not None]
    joint = " " if max((len(f"{format_score(score)} ({score.n:,})") for score in scores), default=0) <= NARROW else "\n"
    for at, (names, line) in enumerate(grid.thinned()):
        if at and names[0]:
            table.add_section()
        table.add_row(*map(literal, names), *(_short_cell(score, joint=joint) for score in line.scores))
    return titled(grid.title, table)


def _cell(score: MetricScore | None, *, with_n: bool) -> Text:
    if score is None:
        return Text(NO_VALUE)
    lines = [format_score(score), format_interval(score), f"n {score.n:,}" if with_n else ""]
    return Text("\n".join(line for line in lines if line))


def _short_cell(score: MetricScore | None, *, joint: str) -> Text:
    return Text(NO_VALUE if score is None else f"{format_score(score)}{joint}({score.n:,})")


def _add_numbers(table: Table, head: ColumnHeader) -> None:
    """Add a column as narrow as its numbers. Its heading has one word on each line; long words break at hyphens."""
    words = [word if len(word) <= NARROW else word.replace("-", "-\n") for word in head.words.split()]
    table.add_column(literal("\n".join([*words, *head.under]), "bold"), justify="right", no_wrap=True)


def report_page(runs: Sequence[Reported], *, slices: bool = True) -> Group:
    """Return all tables and the footer for one or several runs. ``slices``: include the breakdowns by tag."""
    parts: list[RenderableType] = [*score_tables(runs)]
    if slices:
        parts += slice_tables(runs)
    return Group(*parts, footer(runs), Text())
