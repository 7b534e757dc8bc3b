"""The command of this plugin."""

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
            "serve",
            "ke_plugin_serve.cli:command",
            "Answer over an OpenAI-compatible endpoint, with edits in force that change while it runs.",
        )
    )
