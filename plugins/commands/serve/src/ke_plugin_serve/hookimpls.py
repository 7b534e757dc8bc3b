"""The command of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add ``ke serve``, imported when it is used."""
    summary = "Serve an edited model over an OpenAI-compatible API."
    group.add_command(LazyCommand("serve", "ke_plugin_serve.cli:command", summary, "Edit and ship"))
