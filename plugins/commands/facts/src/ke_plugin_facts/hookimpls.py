"""The commands of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click

SECTION = "Edit and ship"
COMMANDS = {
    "facts": "Keep the facts of a model in a file.",
    "plan": "Compare a file of facts with a model, and print what would change.",
    "apply": "Edit a model so that the facts of a file hold.",
    "rollback": "Return a model to an earlier version.",
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    for name, summary in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_plugin_facts.cli.{name}:command", summary, SECTION))
