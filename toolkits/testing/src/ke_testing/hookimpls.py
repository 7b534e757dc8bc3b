"""Commands of the testing toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    new = LazyCommand("new", "ke_testing.cli.new:command", "Write a template for a plugin.", "Extend")
    group.add_command(new)
    check = LazyCommand("check", "ke_testing.cli.check:command", "Check an installed plugin against its contracts.")
    group.add_command(check, "plugins check")


@hookimpl
def ke_hookspecs() -> list[object]:
    """Declare ``ke_checks``."""
    from ke_testing import hookspecs

    return [hookspecs]
