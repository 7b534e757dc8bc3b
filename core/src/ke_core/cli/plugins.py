"""``ke plugins``: what is installed, what it brings, and why it is broken."""

from __future__ import annotations

import click
from rich.console import Group, RenderableType

from ke_core.cli.app import App
from ke_core.cli.console import out
from ke_core.plugins.directory import known
from ke_core.plugins.manager import disabled_by_environment
from ke_core.report.text import literal, plain_table


@click.command("plugins")
@click.option("--all", "everything", is_flag=True, help="Also what is known to exist and not installed.")
@click.pass_obj
def command(app: App, *, everything: bool) -> None:
    """List the installed plugins, what each brings, and why a broken one is broken.

    KE_DISABLE_PLUGINS=NAME,NAME leaves plugins out.

    \b
    Example: ke plugins --all
    """
    shown: list[RenderableType] = [_installed(app)]
    if disabled := disabled_by_environment():
        shown.append(literal(f"left out by KE_DISABLE_PLUGINS: {', '.join(sorted(disabled))}"))
    if everything:
        shown.append(_missing(app))
    out().print(Group(*shown))


def _installed(app: App) -> RenderableType:
    table = plain_table("plugin", "version", "brings")
    catalog = app.catalog  # reading it may mark more plugins as broken
    for name, plugin in sorted(app.plugins.installed.items()):
        if plugin.broken:
            brings = literal(f"broken: {plugin.broken}", "red")
        else:
            kinds: dict[str, list[str]] = {}
            for kind, spec in catalog.of(name):
                kinds.setdefault("model source" if kind == "model" else kind, []).append(spec.name)
            if commands := app.commands_of(name):
                kinds["command"] = commands
            brings = literal("\n".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items()) or "nothing")
        title = name if plugin.distribution in ("", name) else f"{name} ({plugin.distribution})"
        table.add_row(literal(title), literal(plugin.version), brings)
    return table


def _missing(app: App) -> RenderableType:
    table = plain_table("to be had", "kind", "brings", "install with")
    for entry in known():
        if entry.name not in app.catalog.names(entry.kind):
            table.add_row(entry.name, entry.kind, entry.summary, f"pip install {entry.distribution}")
    return table if table.row_count else literal("everything that is known is installed")
