"""The core's own commands, registered through the same hook as any plugin's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import hookimpl

if TYPE_CHECKING:
    import click

COMMANDS = {
    "eval": ("Evaluate", "Evaluate editing methods on a benchmark."),
    "demo": ("Evaluate", "Compare editing methods on a small benchmark."),
    "report": ("Inspect", "Print the main table of runs, or write all tables to files."),
    "runs": ("Inspect", "List runs, show one, delete unfinished ones."),
    "show": ("Inspect", "Describe a component: its options, citation and origin."),
    "datasets": ("Prepare", "List, describe, sample, fetch and check benchmarks."),
    "plugins": ("Extend", "List, find, install and check plugins."),
    "doctor": ("Extend", "Check the installation and its settings."),
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the core's commands, each in a module of its own that is imported when the command is used."""
    from ke_core.cli.lazy import LazyCommand  # noqa: PLC0415  only the command line needs click

    for name, (section, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_core.cli.{name}:command", summary, section))
