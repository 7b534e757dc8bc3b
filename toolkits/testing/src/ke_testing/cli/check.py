"""``ke plugins check NAME``: try the contract of one installed plugin."""

from __future__ import annotations

from collections import Counter

import click

from ke_core.app import (
    DONE,
    FAILED,
    App,
    component_options,
    configure,
    err,
    literal,
    out,
    progress,
    reject_unused,
    split_options,
)
from ke_testing.promises import CheckResult, brings, contracts, outside, plugin_called


@click.command("check")
@click.argument("name")
@component_options
@click.pass_obj
def command(app: App, name: str, options: tuple[str, ...]) -> int:
    """Try every promise that ke relies on, on one installed plugin, and say what to do about each that is broken.

    NAME is the plugin's, with or without ke-plugin-, or that of a component it brings. Exit status 1 if a promise is
    broken; what could not be tried says what it needs. An editor that opens models is tried on tiny ones: give it
    options that suit them.

    \b
    Examples:
      ke plugins check my-method
      ke plugins check my-method -o my-method.steps=3
    """
    brought, given = brings(app.plugins), split_options(options)
    plugin = plugin_called(app.plugins, brought, name).name
    specs = brought[plugin]
    if not app.plugins.installed[plugin].broken:
        reject_unused(given, [spec for _kind, spec in specs])
    if _told(f"plugin {plugin}", list(outside(app.plugins, brought, plugin))):
        return FAILED  # its components cannot be chosen by name as it stands
    broken = 0
    for kind, spec in specs:
        mine = given.get(spec.prefix, {})
        if kind != "model":  # whose options are said with each model
            configure(spec, mine)  # an option that is wrong is said here, and not by every test
        found: list[CheckResult] = []
        with progress(err()) as shown:
            for total, kept in contracts(kind, spec, mine):
                found.append(kept)
                shown.advance(f"{kind} {spec.name}", len(found), total)
        broken += _told(f"{kind} {spec.name}", found)
    for found_elsewhere in app.plugins.manager.hook.ke_checks(plugin=plugin, plugins=app.plugins):
        if results := list(found_elsewhere):
            broken += _told("further checks", results)
    return FAILED if broken else DONE


def _told(what: str, found: list[CheckResult]) -> int:
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
