"""``ke plugins``: list, search and install plugins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
from rich.text import Text

from ke_core.cli.app import App
from ke_core.cli.console import err, out
from ke_core.cli.errors import DONE, FAILED, FIXABLE
from ke_core.cli.options import json_option, print_json, print_rows
from ke_core.plugins.directory import directory_entries, distribution_of, matching
from ke_core.plugins.manager import Installed, disabled_by_environment
from ke_core.results.formatting import literal, plain_table
from ke_core.spec.codec import to_json

SLOW = 5.0
"""Seconds after which the loading of a plugin is reported as slow."""


@click.group("plugins", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """List, find, install and check plugins.

    `ke plugins` lists the installed plugins, their components, and why one is broken. A long list of components is
    cut to the width of the terminal; --json prints all. KE_DISABLE_PLUGINS=NAME,NAME disables plugins.
    KE_PLUGIN_TIMEOUT=SECONDS limits the time to load a plugin (default 30, 0 for no limit).

    \b
    Examples:
      ke plugins
      ke plugins search multi-hop
      ke plugins install mello
    """
    if context.invoked_subcommand is not None:
        return
    app: App = context.obj
    _ = app.catalog  # reading it may mark more plugins as broken
    if as_json:
        rows = [{**to_json(plugin), "brings": _brings(app, name)} for name, plugin in app.plugins.installed.items()]
        print_json(rows)
        return
    table, notes = plain_table("plugin", "version", "brings"), list[Text]()
    table.shorten = "brings"
    for name, plugin in sorted(app.plugins.installed.items()):
        kinds = "; ".join(f"{kind} {', '.join(names)}" for kind, names in _brings(app, name).items())
        title = name if plugin.distribution in ("", name) else f"{name} ({plugin.distribution})"
        table.add_row(
            literal(title), literal(plugin.version), literal("broken" if plugin.broken else kinds or "nothing")
        )
        notes += _notes(plugin)
    if disabled := disabled_by_environment():
        notes.append(literal(f"disabled by KE_DISABLE_PLUGINS: {', '.join(sorted(disabled))}"))
    out().print(table, *notes, sep="\n")


@command.command("search")
@click.argument("words", nargs=-1)
@click.option("--kind", type=click.Choice(sorted({entry.kind for entry in directory_entries()})),
              help="Kind of component.")  # fmt: skip
@json_option
@click.pass_obj
def search_(app: App, words: tuple[str, ...], kind: str | None, *, as_json: bool) -> int:
    """List known plugins, installed or not, whose entries contain all WORDS.

    The list comes with ke. The exit status is 1 if nothing is found.

    \b
    Examples:
      ke plugins search multi-hop
      ke plugins search --kind editor weights
    """
    rows, there = [], _installed(app)
    for entry in matching(words, kind or ""):
        here = entry.distribution in there
        how = "installed" if here else f"ke plugins install {entry.distribution.removeprefix('ke-plugin-')}"
        rows.append({"name": entry.name, "kind": entry.kind, "summary": entry.summary, "install_with": how})
    if rows or as_json:
        print_rows(rows, as_json=as_json)
    else:
        out().print(literal("no plugin matches all of these words"))
    return DONE if rows else FAILED


@command.command("install")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--yes", is_flag=True, help="Install without confirmation.")
@click.pass_obj
def install_(app: App, names: tuple[str, ...], *, yes: bool) -> int:
    """Install known plugins with pip into the Python environment of ke.

    NAME is the name of a plugin, with or without ke-plugin-, or of one of its components. The command prints the pip
    command and asks for confirmation. Without a terminal, it installs nothing unless you add --yes, and the exit
    status is 2. Install plugins that ke does not know with pip.

    \b
    Examples:
      ke plugins install mello
      ke plugins install mquake-cf-3k ripple --yes
    """
    here = _installed(app)
    wanted = [one for one in dict.fromkeys(map(distribution_of, names)) if one not in here]
    if not wanted:
        out().print("already installed")
        return DONE
    line = [sys.executable, "-m", "pip", "install", "--upgrade", *wanted]
    err().print(literal(f"command: {' '.join(line)}"), soft_wrap=True)
    if not yes and not (sys.stdin.isatty() and click.confirm("Install?", err=True)):
        err().print("nothing was installed; add --yes to install without confirmation")
        return FIXABLE
    if subprocess.run(line, check=False, stdout=sys.stderr).returncode:  # noqa: S603  the line that was shown
        err().print("error: pip failed; see its messages above", style="red")
        return FAILED
    out().print(literal(f"installed: {', '.join(wanted)}; ke plugins lists what they bring"))
    return DONE


def _brings(app: App, name: str) -> dict[str, list[str]]:
    """Return the names of a plugin's components, other hooks and commands, by kind."""
    found: dict[str, list[str]] = {}
    for kind, spec in app.catalog.of(name):
        found.setdefault("model source" if kind == "model" else kind, []).append(spec.name)
    further = {"hook": app.plugins.other_hooks(name), "command": app.commands_of(name)}
    return found | {kind: names for kind, names in further.items() if names}


def _notes(plugin: Installed) -> Iterator[Text]:
    """Yield the problems of a plugin."""
    if plugin.broken:
        late = f" (after {plugin.seconds:.1f} s)" if plugin.seconds >= SLOW else ""
        yield literal(f"{plugin.name} is broken: {plugin.broken}{late}", "red")
        if plugin.step:
            yield literal(f"  for its author: {plugin.step}")
    elif plugin.seconds >= SLOW:
        yield literal(f"{plugin.name} takes {plugin.seconds:.1f} s to load", "yellow")
    if plugin.printed:
        yield literal(f"{plugin.name} prints text while it is loaded; its author can remove that", "yellow")


def _installed(app: App) -> set[str]:
    return {plugin.distribution or name for name, plugin in app.plugins.installed.items() if not plugin.broken}
