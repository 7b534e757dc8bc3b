"""Commands that are imported when they are used, sections in their help, and an error for repeated options."""

from __future__ import annotations

from collections import Counter
from functools import partial
from importlib import import_module
from typing import Any

import click

from ke_core.spec.errors import KEError

OTHER = "Other"
SERVER = "Models behind HTTP"
"""The last section of a command's options."""


class LazyCommand(click.Command):
    """A command that is imported from ``source`` (``package.module:attribute``) when it is used.

    ``ke --help`` stays fast, because it needs the names and summaries only. ``section``: the heading in ``ke --help``.
    ``extra``: subcommands that other plugins add, by name.
    """

    def __init__(self, name: str, source: str, summary: str, section: str = OTHER) -> None:
        super().__init__(name, help=summary, short_help=summary)
        self.source = source
        self.section = section
        self.extra: dict[str, click.Command] = {}

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.source.partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command), f"{self.source} is not a click command"
        if self.extra:
            assert isinstance(found, click.Group), f"{self.source} takes no further commands"
            for name, command in self.extra.items():
                found.commands.setdefault(name, command)
        set_up(found)
        return found

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Make a context of the real command: click invokes the command that its context names."""
        return self.load().make_context(info_name, args, parent, **extra)


class Root(click.Group):
    """The command ``ke``: its help lists the commands by section."""

    sections = ("Evaluate", "Edit and ship", "Inspect", "Prepare", "Extend")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, with those that plugins add at the end."""
        width = max(map(len, self.commands), default=0)
        rows: dict[str, list[tuple[str, str]]] = {section: [] for section in self.sections}
        for name, command in sorted(self.commands.items()):
            if not command.hidden:
                summary = command.get_short_help_str(formatter.width - width - 4)
                rows.setdefault(getattr(command, "section", OTHER), []).append((name.ljust(width), summary))
        _write(rows, formatter)


SWEPT = ("dataset", "model", "batch", "num_edited", "seed")
"""Options of ``ke eval`` for which a second value suggests a sweep."""


def set_up(command: click.Command) -> None:
    """Let ``command`` and its subcommands reject repeated options and list options by section.

    The command is changed in place, because commands of plugins have classes of click.
    """
    if "parse_args" in vars(command):  # loaded before in this process
        return
    parse = command.parse_args

    def parse_args(context: click.Context, args: list[str]) -> list[str]:
        given = [*args]  # click's parser empties the list
        rest = parse(context, args)  # first: it prints the help and reports other mistakes
        if not context.resilient_parsing:
            _refuse_twice(command, context, given)
        return rest

    vars(command).update(parse_args=parse_args, format_options=partial(_format_options, command))
    for own in command.commands.values() if isinstance(command, click.Group) else ():
        set_up(own)


def _format_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options by section: named sections first, then options without one, then those for servers."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            rows.setdefault(vars(parameter).get("section", OTHER), []).append(record)
    others, server = rows.pop(OTHER, []), rows.pop(SERVER, [])
    rows["Other options" if rows else "Options"] = others
    rows[SERVER] = server
    _write(rows, formatter)
    if isinstance(command, click.Group):
        command.format_commands(context, formatter)


def _write(rows: dict[str, list[tuple[str, str]]], formatter: click.HelpFormatter) -> None:
    for title, definitions in rows.items():
        if definitions:
            with formatter.section(title):
                formatter.write_dl(definitions)


def _refuse_twice(command: click.Command, context: click.Context, args: list[str]) -> None:
    try:
        _values, _rest, order = command.make_parser(context).parse_args(args)
    except click.UsageError:  # a group with a parser of its own
        return
    for parameter, times in Counter(order).items():
        if times > 1 and isinstance(parameter, click.Option) and _single(parameter):
            swept = command.name == "eval" and parameter.name in SWEPT
            name = next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])
            raise KEError(
                f"{'/'.join([name, *parameter.secondary_opts])} is given twice",
                hint="ke sweep FILE.toml runs several" if swept else "give it once",
            )


def _single(option: click.Option) -> bool:
    """Return whether an option can be given only once. Flags without an opposite can be repeated."""
    return not (option.multiple or option.count or (option.is_flag and not option.secondary_opts))
