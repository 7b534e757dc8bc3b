"""``ke plugins check NAME``: check an installed plugin against its contracts."""

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
from ke_testing.checks import CheckResult, contracts, find_plugin, installation_checks, registrations


@click.command("check")
@click.argument("name")
@component_options
@click.pass_obj
def command(app: App, name: str, options: tuple[str, ...]) -> int:
    """Check an installed plugin against its contracts.

    NAME is the name of the plugin, with or without ke-plugin-, or of one of its components. For each failed check, the
    command prints a fix; for each skipped check, its requirements. Editors run on tiny models: set options that work
    for these. The exit status is 1 if a check failed.

    \b
    Examples:
      ke plugins check my-method
      ke plugins check my-method -o my-method.steps=3
    """
    registered, given = registrations(app.plugins), split_options(options)
    plugin = find_plugin(app.plugins, registered, name).name
    specs = registered[plugin]
    if not app.plugins.installed[plugin].broken:
        reject_unused(given, [spec for _kind, spec in specs])
    if _print_results(f"plugin {plugin}", list(installation_checks(app.plugins, registered, plugin))):
        return FAILED  # its components cannot be selected by name
    failed = 0
    for kind, spec in specs:
        mine = given.get(spec.prefix, {})
        if kind != "model":  # options of a model belong to each --model
            configure(spec, mine)  # report a wrong option once, not in every test
        found: list[CheckResult] = []
        with progress(err()) as shown:
            for total, result in contracts(kind, spec, mine):
                found.append(result)
                shown.advance(f"{kind} {spec.name}", len(found), total)
        failed += _print_results(f"{kind} {spec.name}", found)
    for found_elsewhere in app.plugins.manager.hook.ke_checks(plugin=plugin, plugins=app.plugins):
        if results := list(found_elsewhere):
            failed += _print_results("further checks", results)
    return FAILED if failed else DONE


def _print_results(what: str, found: list[CheckResult]) -> int:
    """Print how many checks passed, and details of the others. Return how many failed."""
    counts = {
        outcome: sum(result.outcome == outcome for result in found) for outcome in ("passed", "failed", "skipped")
    }
    line = literal(f"{what}: ", "bold")
    line.append(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count or outcome == "passed"))
    lines = [line]
    for result in found:
        if result.outcome == "failed":
            lines.append(literal(f"  failed: {result.check}", "red"))
            where = f" ({result.where})" if result.where else ""
            lines.append(literal(f"    found: {result.found}{where}"))
            lines.append(literal(f"    do:    {result.do}"))
    for reason, count in Counter(result.found for result in found if result.outcome == "skipped").items():
        lines.append(literal(f"  skipped ({count}): {reason}"))
    for text in lines:
        out().print(text, soft_wrap=True)
    return counts["failed"]
