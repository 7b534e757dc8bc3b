"""An option that has one value is refused where it is given twice: click would keep the last, without a word."""

from __future__ import annotations

from collections import Counter

import click

from ke_core.errors import KEError

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
    return "/".join([max(option.opts, key=len), *option.secondary_opts])
