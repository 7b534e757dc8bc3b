"""The commands of this plugin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ke_core.plugin import LazyCommand, ReportFormat, hookimpl

if TYPE_CHECKING:
    import click


COMMANDS = {
    "judge": ("judge:command", "Evaluate", "Judge the answers of a run again with another judge."),
    "score": ("judge:score_command", "Evaluate", "Score a judged run again with other metrics."),
    "compare": ("compare:command", "Inspect", "Compare runs query by query, with significance tests."),
    "import": ("importing:command", "Prepare", "Import predictions of other tools as a run."),
    "annotate": ("annotate:command", "Inspect", "Label answers manually, and measure the judge's agreement."),
    "judges": ("judges:command", "Prepare", "List judges, and check one against human labels."),
}
SUBCOMMANDS = {
    "show": "Show the settings, progress, phases and failures of a run.",
    "prune": "Delete the unfinished and damaged runs in a folder.",
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    for name, (place, section, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_plugin_analysis.cli.{place}", summary, section))
    for name, summary in SUBCOMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_plugin_analysis.cli.runs:{name}", summary), f"runs {name}")


FORMATS = {
    "html": "Write one page with tables, charts and all cases.",
    "latex": "Write the tables in LaTeX (booktabs).",
    "csv": "Write one row for each score.",
    "markdown": "Write the tables in GitHub's Markdown.",
}


def _render(kind: str, runs: Any, catalog: Any, data_dir: str, slices: bool) -> str:  # noqa: FBT001  a hook's signature
    from ke_plugin_analysis.export import render  # noqa: PLC0415  imports jinja

    return render(runs, kind, catalog, data_dir=data_dir, slices=slices)


@hookimpl
def ke_report_formats() -> list[ReportFormat]:
    """Register HTML, LaTeX, CSV and Markdown."""
    return [ReportFormat(name=name, help=text, render=partial(_render, name)) for name, text in FORMATS.items()]


@hookimpl
def ke_compare_runs(folders: Any, catalog: Any) -> list[dict[str, Any]]:
    """Compare runs with the first one, score by score."""
    from ke_plugin_analysis.comparing import compare_runs  # noqa: PLC0415  numpy
    from ke_plugin_analysis.report.compare import comparison_rows  # noqa: PLC0415  rich

    found = compare_runs(folders, catalog)
    return comparison_rows(found)


@hookimpl
def ke_full_report(runs: Any, slices: bool) -> object:  # noqa: FBT001  a hook's signature
    """Draw every table, and the lines under them."""
    from ke_plugin_analysis.tables import report_page  # noqa: PLC0415  rich

    return report_page(runs, slices=slices)
