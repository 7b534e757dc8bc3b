"""A command that is known by name and summary, and imported when somebody uses it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from ke_core.cli.once import once


class LazyCommand(click.Command):
    """Stands in for ``source`` (``package.module:attribute``) until it is invoked.

    ``extra``: subcommands that other plugins add, by name. This is what keeps ``ke --help`` fast: no command's imports
    are paid for but those of the one in use.
    """

    def __init__(self, name: str, source: str, summary: str) -> None:
        super().__init__(name, help=summary, short_help=summary)
        self.source = source
        self.extra: dict[str, click.Command] = {}

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self.source.partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command), f"{self.source} is not a click command"
        if self.extra:
            assert isinstance(found, click.Group), f"{self.source} takes no further commands"
            found.commands.update(self.extra)
        once(found)
        return found

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """A context of the real command: click invokes the command that its context names."""
        return self.load().make_context(info_name, args, parent, **extra)
