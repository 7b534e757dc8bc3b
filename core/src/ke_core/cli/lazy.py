"""Commands that are known by name and summary, and imported when they are used."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

import click

from ke_core.spec.errors import KEError


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


SWEPT = ("dataset", "model", "batch", "edited", "seed")
"""Options of ``ke eval`` that people give twice to have both; ``ke sweep`` is for that."""


def once(command: click.Command) -> None:
    """Have ``command``, and those in it if it is a group, refuse what is given twice.

    Done to a command that is there already, because plugins bring commands of click's own classes.
    """
    if "parse_args" in vars(command):  # loaded before in this process
        return
    parse = command.parse_args

    def parse_args(context: click.Context, args: list[str]) -> list[str]:
        given = [*args]  # click's parser takes them off the list
        rest = parse(context, args)  # first: it prints the help, and knows better what else is wrong
        _refuse_twice(command, context, given)
        return rest

    vars(command)["parse_args"] = parse_args
    for own in command.commands.values() if isinstance(command, click.Group) else ():
        once(own)


def _refuse_twice(command: click.Command, context: click.Context, args: list[str]) -> None:
    try:
        _values, _rest, order = command.make_parser(context).parse_args(args)
    except click.UsageError:  # a group that reads its words in a way of its own
        return
    for parameter, times in Counter(order).items():
        if times > 1 and isinstance(parameter, click.Option) and _single(parameter):
            swept = command.name == "eval" and parameter.name in SWEPT
            raise KEError(
                f"{_called(parameter)} is given twice",
                hint="ke sweep FILE.toml runs several" if swept else "give it once",
            )


def _single(option: click.Option) -> bool:
    """Whether the second contradicts the first; a flag said twice says the same, unless it has an opposite."""
    return not (option.multiple or option.count or (option.is_flag and not option.secondary_opts))


def _called(option: click.Option) -> str:
    name = next((name for name in option.opts if name.startswith("--")), option.opts[0])
    return "/".join([name, *option.secondary_opts])
