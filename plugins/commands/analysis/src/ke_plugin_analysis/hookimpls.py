"""The commands of this plugin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ke_core.plugin import LazyCommand, ReportFormat, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands. Each is imported on first use."""
    group.add_command(
        LazyCommand(
            "compare",
            "ke_plugin_analysis.cli.compare:command",
            "Pair the same queries of two runs, and say what differs by more than chance.",
        )
    )
    group.add_command(
        LazyCommand(
            "import",
            "ke_plugin_analysis.cli.importing:command",
            "Take others' predictions into a run folder, judge them and score them.",
        )
    )
    group.add_command(
        LazyCommand(
            "annotate",
            "ke_plugin_analysis.cli.annotate:command",
            "Write a sheet of answers to be labeled by hand, and read it back with the judge's agreement.",
        )
    )
    group.add_command(
        LazyCommand(
            "judges",
            "ke_plugin_analysis.cli.judges:command",
            "List judges, and check one against labels written by hand.",
        )
    )


FORMATS = {
    "html": "Write one page with tables, charts and all cases.",
    "latex": "Write the tables for a paper (booktabs).",
    "csv": "Write every score, one a row.",
    "markdown": "Write the tables as GitHub shows them.",
}


def _render(kind: str, runs: Any, catalog: Any, data_dir: str, slices: bool) -> str:  # noqa: FBT001  a hook's signature
    from ke_plugin_analysis.export import render  # noqa: PLC0415  imports jinja

    return render(runs, kind, catalog, data_dir=data_dir, slices=slices)


@hookimpl
def ke_report_formats() -> list[ReportFormat]:
    """Register HTML, LaTeX, CSV and Markdown."""
    return [ReportFormat(name=name, help=text, render=partial(_render, name)) for name, text in FORMATS.items()]
