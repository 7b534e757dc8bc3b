"""Commands of the benchmarks toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    group.add_command(
        LazyCommand(
            "audit", "ke_benchmarks.cli.audit:command", "Find what is wrong with a dataset of edits, and fix it."
        )
    )
    group.add_command(
        LazyCommand("build", "ke_benchmarks.cli.build:command", "Build a benchmark from a knowledge graph.")
    )
    group.add_command(
        LazyCommand("export", "ke_benchmarks.cli.export:command", "Write the cases of a dataset to a file."),
        "datasets export",
    )
    group.add_command(
        LazyCommand("fetch", "ke_benchmarks.cli.fetch:command", "Fetch the published files of datasets."),
        "datasets fetch",
    )
    group.add_command(
        LazyCommand("validate", "ke_benchmarks.cli.validate:command", "Check the cases of a dataset, or of a file."),
        "datasets validate",
    )
