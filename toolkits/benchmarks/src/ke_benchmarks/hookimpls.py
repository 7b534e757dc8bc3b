"""Commands of the benchmarks toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click


COMMANDS = {
    "audit": ("Prepare", "Find and fix errors in a dataset of edits."),
    "build": ("Prepare", "Build a benchmark from a knowledge graph."),
}
SUBCOMMANDS = {
    "export": ("datasets:export_command", "Write the cases of a dataset to a file."),
    "fetch": ("datasets:fetch", "Download the published files of datasets."),
    "info": ("datasets:info", "Print license, source, citation, published counts and files of a dataset."),
    "sample": ("datasets:sample", "Print cases of a dataset: edits, questions, correct answers."),
    "stats": ("datasets:stats", "Count the cases of a dataset, and compare with the published counts."),
    "validate": ("validate:command", "Check the cases of a dataset or a file."),
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    for name, (section, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_benchmarks.cli.{name}:command", summary, section))
    for name, (source, summary) in SUBCOMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_benchmarks.cli.{source}", summary), f"datasets {name}")
