"""The commands of this plugin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    group.add_command(
        LazyCommand(
            "reproduce",
            "ke_plugin_reproduce.cli.reproduce:command",
            "Run a published table or figure again, and set each number beside the printed one.",
        )
    )
    group.add_command(
        LazyCommand(
            "sweep",
            "ke_plugin_reproduce.cli.sweep:command",
            "Run every combination of editors, datasets, models, sizes, seeds and options that FILE.toml lists.",
        )
    )
    group.add_command(
        LazyCommand(
            "leaderboard",
            "ke_plugin_reproduce.cli.leaderboard:command",
            "Rank the finished runs in a folder, with intervals.",
        )
    )


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
