"""``ke plugins``: what is installed, what it brings, and why it is broken; and whether one keeps its contract."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType

from ke_core.cli.app import App
from ke_core.cli.console import err, out, progress
from ke_core.cli.errors import DONE, FAILED
from ke_core.cli.options import component_options
from ke_core.plugins.directory import known
from ke_core.plugins.manager import disabled_by_environment
from ke_core.report.text import literal, plain_table

if TYPE_CHECKING:
    from ke_core.plugins.promises import Kept


@click.group("plugins", invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="Also what is known to exist and not installed.")
@click.pass_context
def command(context: click.Context, *, everything: bool) -> None:
    """List the installed plugins, what each brings, why one is broken; check that one keeps its contract.

    KE_DISABLE_PLUGINS=NAME,NAME leaves plugins out.

    \b
    Examples:
      ke plugins --all
      ke plugins check my-method
    """
    if context.invoked_subcommand is not None:
        return
    app: App = context.obj
    shown: list[RenderableType] = [_installed(app)]
    if disabled := disabled_by_environment():
        shown.append(literal(f"left out by KE_DISABLE_PLUGINS: {', '.join(sorted(disabled))}"))
    if everything:
        shown.append(_missing(app))
    out().print(Group(*shown))


@command.command("check")
@click.argument("name")
@component_options
@click.pass_obj
def check_(app: App, name: str, options: tuple[str, ...]) -> int:
    """Try every promise that ke relies on, on one installed plugin, and say what to do about each that is broken.

    NAME is the plugin's, with or without ke-plugin-, or that of a component it brings. Exit status 1 if a promise is
    broken. Needs pytest: pip install 'ke-core[testing]'. An editor that opens models is tried on tiny ones: give it
    options that suit them.

    \b
    Examples:
      ke plugins check my-method
      ke plugins check my-method -o my-method.steps=3
    """
    from ke_core.plugins.options import configure, reject_unused, split  # noqa: PLC0415  the specs, only when needed
    from ke_core.plugins.promises import brings, contracts, outside, plugin_called  # noqa: PLC0415  as above

    plugin = plugin_called(app.plugins, name).name
    offered, given = brings(app.plugins, plugin), split(options)
    if not app.plugins.installed[plugin].broken:
        reject_unused(given, [spec for _kind, spec in offered])
    if _told(f"plugin {plugin}", list(outside(app.plugins, plugin))):
        return FAILED  # its components cannot be chosen by name as it stands
    broken = 0
    for kind, spec in offered:
        mine = given.get(spec.prefix, {})
        configure(spec, mine)  # an option that is wrong is said here, and not by every test
        found: list[Kept] = []
        with progress(err()) as shown:
            for total, kept in contracts(kind, spec, mine):
                found.append(kept)
                shown.advance(f"{kind} {spec.name}", len(found), total)
        broken += _told(f"{kind} {spec.name}", found)
    return FAILED if broken else DONE


def _told(what: str, found: list[Kept]) -> int:
    """Print how many promises are kept, and each that is not in full; how many are broken."""
    counts = {outcome: sum(kept.outcome == outcome for kept in found) for outcome in ("kept", "broken", "untried")}
    line = literal(f"{what}: ", "bold")
    line.append(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count or outcome == "kept"))
    lines = [line]
    for kept in found:
        if kept.outcome == "broken":
            lines.append(literal(f"  broken: {kept.promise}", "red"))
            where = f" ({kept.where})" if kept.where else ""
            lines.append(literal(f"    found: {kept.found}{where}"))
            lines.append(literal(f"    do:    {kept.do}"))
    for reason, count in Counter(kept.found for kept in found if kept.outcome == "untried").items():
        lines.append(literal(f"  untried ({count}): {reason}"))
    for text in lines:
        out().print(text, soft_wrap=True)
    return counts["broken"]


def _installed(app: App) -> RenderableType:
    table = plain_table("plugin", "version", "brings")
    catalog = app.catalog  # reading it may mark more plugins as broken
    for name, plugin in sorted(app.plugins.installed.items()):
        if plugin.broken:
            brings = literal(f"broken: {plugin.broken}", "red")
            if plugin.step:
                brings.append(f"\nits author: {plugin.step}")
        else:
            kinds: dict[str, list[str]] = {}
            for kind, spec in catalog.of(name):
                kinds.setdefault("model source" if kind == "model" else kind, []).append(spec.name)
            if commands := app.commands_of(name):
                kinds["command"] = commands
            brings = literal("\n".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items()) or "nothing")
            if plugin.printed:
                brings.append("\nprints while it is loaded; its author takes that out", "yellow")
        title = name if plugin.distribution in ("", name) else f"{name} ({plugin.distribution})"
        table.add_row(literal(title), literal(plugin.version), brings)
    return table


def _missing(app: App) -> RenderableType:
    table = plain_table("to be had", "kind", "brings", "install with")
    for entry in known():
        if entry.name not in app.catalog.names(entry.kind):
            table.add_row(entry.name, entry.kind, entry.summary, f"pip install {entry.distribution}")
    return table if table.row_count else literal("everything that is known is installed")
