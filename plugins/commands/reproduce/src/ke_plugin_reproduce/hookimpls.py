"""The commands of this plugin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click


COMMANDS = {
    "reproduce": ("Evaluate", "Reproduce published tables and figures."),
    "sweep": ("Evaluate", "Run every combination of the settings in a file."),
    "leaderboard": ("Inspect", "Rank the finished runs in a folder."),
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    for name, (section, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_plugin_reproduce.cli.{name}:command", summary, section))


@hookimpl
def ke_hookspecs() -> list[object]:
    """Declare ``ke_reproductions``."""
    from ke_plugin_reproduce import hookspecs  # noqa: PLC0415  only here

    return [hookspecs]


@hookimpl(optionalhook=True)
def ke_checks(plugin: str, plugins: Any) -> Iterable[Any]:
    """Check that every table that ``plugin`` offers can be read."""
    from ke_plugin_reproduce.checks import table_checks  # noqa: PLC0415  imports ke-testing, whose hook this is

    return table_checks(plugin, plugins)
