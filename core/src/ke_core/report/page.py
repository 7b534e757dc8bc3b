"""A whole report: the table of scores, the breakdowns, and what must be known beside them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ke_core.report.footer import footer
from ke_core.report.run import Reported
from ke_core.report.table import score_tables, slice_tables


def report_page(runs: Sequence[Reported], *, slices: bool = True) -> Group:
    """Everything, for one run or several side by side; ``slices``: with the breakdowns by tag."""
    parts: list[RenderableType] = [*score_tables(runs)]
    if slices:
        parts += slice_tables(runs)
    return Group(*parts, footer(runs), Text())
