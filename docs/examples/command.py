"""A command: ``ke hello NAME``."""

import click

from ke_core.plugin import hookimpl


@click.command()
@click.argument("name")
def hello(name: str) -> None:
    """Greet NAME."""
    click.echo(f"hello {name}")


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Register the command."""
    group.add_command(hello)
