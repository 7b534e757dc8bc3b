"""The core's own commands, registered through the same hook as any plugin's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import hookimpl

if TYPE_CHECKING:
    import click

COMMANDS = {
    "eval": "Edit a model, ask it a benchmark's questions, score its answers.",
    "demo": "Compare editors on a small embedded benchmark.",
    "report": "Print the table of one run, or of several side by side, or write it to files.",
    "runs": "List the runs in a folder, show one, remove unfinished ones.",
    "judge": "Judge the replies of a finished run again, with another judge.",
    "score": "Score a judged run again, with other metrics.",
    "datasets": "List benchmarks, count and sample their cases; fetch, check and export them.",
    "show": "Describe one component: its options, citation and origin.",
    "doctor": "Check this installation: plugins, device, memory, caches, folders, what is configured.",
    "plugins": "List the installed plugins, what each brings, why one is broken; find and install plugins.",
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the core's commands, each in a module of its own that is imported when the command is used."""
    from ke_core.cli.lazy import LazyCommand  # noqa: PLC0415  only the command line needs click

    for name, summary in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_core.cli.{name}:command", summary))
