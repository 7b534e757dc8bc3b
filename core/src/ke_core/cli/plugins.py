"""``ke plugins``: list, search and install plugins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
from rich.console import Group, RenderableType

from ke_core.cli.app import App
from ke_core.cli.console import err, out
from ke_core.cli.errors import DONE, FAILED, FIXABLE
from ke_core.plugins.directory import directory_entries, distribution_of, elsewhere, matching
from ke_core.plugins.manager import Installed, disabled_by_environment
from ke_core.results.formatting import literal, plain_table

SLOW = 5.0
"""Seconds that a plugin may take to load without a remark."""


@click.group("plugins", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the installed plugins, what each brings, why one is broken; find and install plugins.

    KE_DISABLE_PLUGINS=NAME,NAME leaves plugins out. KE_PLUGIN_TIMEOUT=SECONDS limits how long each may take to load (30
    by default, 0 for no limit).

    \b
    Examples:
      ke plugins
      ke plugins search multi-hop
      ke plugins install mello
    """
    if context.invoked_subcommand is not None:
        return
    app: App = context.obj
    shown: list[RenderableType] = [_installed(app)]
    if disabled := disabled_by_environment():
        shown.append(literal(f"left out by KE_DISABLE_PLUGINS: {', '.join(sorted(disabled))}"))
    out().print(Group(*shown))


@command.command("search")
@click.argument("words", nargs=-1)
@click.option(
    "--kind", type=click.Choice(sorted({entry.kind for entry in directory_entries()})), help="Of this kind only."
)
@click.option("--directory", metavar="FILE|URL", default="", help="Search this list in place of the one in ke.")
@click.pass_obj
def search_(app: App, words: tuple[str, ...], kind: str | None, directory: str) -> int:
    """List the plugins that are known to exist, installed or not: those in whose line every one of WORDS occurs.

    The list comes with ke, and nothing is asked of a network unless --directory names a newer one. Exit status 1 if
    nothing is found.

    \b
    Examples:
      ke plugins search multi-hop
      ke plugins search --kind editor weights
      ke plugins search --directory ./directory.json
    """
    found = matching(words, kind or "", elsewhere(directory) if directory else None)
    if not found:
        out().print(literal("nothing that is known has all of these words"))
        return FAILED
    table = plain_table("name", "kind", "what it does", "install with")
    for entry in found:
        here = entry.name in app.catalog.names(entry.kind)
        short = entry.distribution.removeprefix("ke-plugin-")
        how = f"pip install {entry.distribution}" if directory else f"ke plugins install {short}"
        table.add_row(literal(entry.name), entry.kind, literal(entry.summary), literal("installed" if here else how))
    out().print(table)
    return DONE


@command.command("install")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--yes", is_flag=True, help="Install without asking.")
@click.pass_obj
def install_(app: App, names: tuple[str, ...], *, yes: bool) -> int:
    """Install known plugins with pip, for the Python that runs ke. Shows the command first, and asks.

    NAME is a plugin's, with or without ke-plugin-, or that of a component it brings. Without a terminal,
    nothing is installed unless --yes is said, and the exit status is 2. What is not known to ke is installed with
    pip itself.

    \b
    Examples:
      ke plugins install mello
      ke plugins install mquake-cf-3k ripple --yes
    """
    here = {plugin.distribution or name for name, plugin in app.plugins.installed.items() if not plugin.broken}
    wanted = [one for one in dict.fromkeys(map(distribution_of, names)) if one not in here]
    if not wanted:
        out().print("all of that is installed")
        return DONE
    line = [sys.executable, "-m", "pip", "install", "--upgrade", *wanted]
    err().print(literal(f"this will be run: {' '.join(line)}"), soft_wrap=True)
    if not yes and not (sys.stdin.isatty() and click.confirm("Install?", err=True)):
        err().print("nothing was installed; --yes installs without asking")
        return FIXABLE
    if subprocess.run(line, check=False, stdout=sys.stderr).returncode:  # noqa: S603  the line that was shown
        err().print("error: pip could not install that; see its messages above", style="red")
        return FAILED
    out().print(literal(f"installed: {', '.join(wanted)}; ke plugins lists what they bring"))
    return DONE


def _installed(app: App) -> RenderableType:
    table = plain_table("plugin", "version", "brings")
    catalog = app.catalog  # reading it may mark more plugins as broken
    for name, plugin in sorted(app.plugins.installed.items()):
        if plugin.broken:
            brings = literal(f"broken: {plugin.broken}", "red")
            if plugin.step:
                brings.append(f"\nits author: {plugin.step}")
            if plugin.seconds:
                brings.append(f"\nafter {plugin.seconds:.1f} s")
        else:
            kinds: dict[str, list[str]] = {}
            for kind, spec in catalog.of(name):
                kinds.setdefault("model source" if kind == "model" else kind, []).append(spec.name)
            if others := app.plugins.other_hooks(name):
                kinds["hook"] = others
            if commands := app.commands_of(name):
                kinds["command"] = commands
            brings = literal("\n".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items()) or "nothing")
            for remark in _remarks(plugin):
                brings.append_text(literal(f"\n{remark}", "yellow"))
        title = name if plugin.distribution in ("", name) else f"{name} ({plugin.distribution})"
        table.add_row(literal(title), literal(plugin.version), brings)
    return table


def _remarks(plugin: Installed) -> Iterator[str]:
    """What is not right with a plugin that works."""
    if plugin.seconds >= SLOW:
        yield f"takes {plugin.seconds:.1f} s to load"
    if plugin.printed:
        yield "prints while it is loaded; its author takes that out"
