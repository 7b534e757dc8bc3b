"""A reference page for each command, generated from its help text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from ke_core.cli.lazy import OTHER, LazyCommand, Root
from ke_core.cli.main import EPILOG


def command_pages(root: click.Group) -> Iterator[tuple[str, str]]:
    """Yield ``reference/commands/NAME.md`` for every command, and the list of commands."""
    sections: dict[str, list[str]] = {title: [] for title in Root.sections}
    for name in sorted(root.commands):
        title = getattr(root.commands[name], "section", OTHER)
        command = loaded(root.commands[name])
        summary = (command.help or "").split("\n\n")[0].replace("\n", " ").strip()
        sections.setdefault(title, []).append(f"| [`ke {name}`]({name}.md) | {cell(summary)} |")
        yield f"reference/commands/{name}.md", "\n".join(described(command, ("ke", name), 1))
    toc = "\n".join(sorted(root.commands))
    listed = "\n\n".join(
        "\n".join((f"## {title}\n\n| command | |\n| --- | --- |", *rows)) for title, rows in sections.items() if rows
    )
    head = (
        "# Commands\n\nThe help texts of all commands, as printed by `ke COMMAND --help`. "
        "[Command line](../../command-line.md) describes what they have in common.\n\n"
    )
    tail = f"\n\n{EPILOG}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    yield "reference/commands/index.md", head + listed + tail


def loaded(command: click.Command) -> click.Command:
    """Return the command, imported if it is lazy."""
    return command.load() if isinstance(command, LazyCommand) else command


def described(command: click.Command, names: tuple[str, ...], level: int) -> Iterator[str]:
    """Yield the lines of a command and, one level deeper, of its subcommands."""
    context = click.Context(command, info_name=" ".join(names))
    yield f"{'#' * level} {' '.join(names)}\n"
    yield from prose(command.help or "")
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    section = ""
    for option in options:
        if (title := vars(option).get("section", "")) != section:
            section = title
            yield f"**{title or 'Other options'}**\n"
        yield f"{spelled(option, context)}\n: {said(option, context)}\n"
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from described(loaded(command.commands[name]), (*names, name), level + 1)


def prose(text: str) -> Iterator[str]:
    """Yield a help text as Markdown. Preformatted parts (after a backspace) become code blocks."""
    for part in inspect.cleandoc(text).split("\n\n"):
        if not part.startswith("\b"):
            yield escaped(part.replace("\n", " ")) + "\n"
            continue
        lines = part.splitlines()[1:]
        if lines and lines[0].endswith(":") and len(lines) > 1 and lines[1].startswith(" "):
            yield escaped(lines.pop(0)) + "\n"
        block = inspect.cleandoc("\n" + "\n".join(lines))
        yield f"```{'sh' if re.match(r'ke |.*: +ke ', block) else 'text'}\n{block}\n```\n"


def spelled(option: click.Option, context: click.Context) -> str:
    """Return an option with its metavariable."""
    names = ", ".join((*option.opts, *option.secondary_opts))
    return f"`{names}`" if option.is_flag or option.count else f"`{names} {option.make_metavar(context)}`"


def said(option: click.Option, context: click.Context) -> str:
    """Return the help text and the default of an option."""
    text, _, stated = (option.help or "").partition(" [default: ")  # a default that click lacks
    text = cell(text)
    notes = [f"default: {cell(stated.removesuffix(']'))}"] if stated else []
    default = option.get_default(context)
    if option.required:
        notes.append("required")
    elif option.show_default and default not in (None, "", ()):
        shown = option.show_default if isinstance(option.show_default, str) else default
        notes.append(f"default: `{'yes' if shown is True else 'no' if shown is False else shown}`")
    if option.multiple and "repeat" not in text:
        notes.append("repeatable")
    return text + (f" ({'; '.join(notes)})" if notes else "")


def escaped(text: str) -> str:
    """Escape Markdown, except between backticks."""
    parts = text.split("`")
    outside = [re.sub(r"([<>*\[\]{}])", r"\\\1", part) for part in parts[::2]]
    inside = [f"`{part}`" for part in parts[1::2]] if len(parts) % 2 else []
    if len(parts) % 2 == 0:
        return text.replace("`", "\\`")
    return "".join(piece for pair in zip(outside, [*inside, ""], strict=True) for piece in pair)


def cell(text: str) -> str:
    """Escape text for a table cell."""
    return escaped(" ".join(text.split())).replace("|", r"\|")
