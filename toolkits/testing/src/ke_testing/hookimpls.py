"""Commands of the testing toolkit."""

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
            "new",
            "ke_testing.cli.new:command",
            "Write a plugin to start from: a distribution that passes its contract as it stands.",
        )
    )
    group.add_command(
        LazyCommand("check", "ke_testing.cli.check:command", "Try the contract of one installed plugin."),
        "plugins check",
    )


@hookimpl
def ke_hookspecs() -> list[object]:
    """Declare ``ke_checks``."""
    from ke_testing import hookspecs

    return [hookspecs]
