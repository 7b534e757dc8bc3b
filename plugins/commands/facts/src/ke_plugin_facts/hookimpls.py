"""The commands of this plugin, and its reader of suites."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ke_core.plugin import BadData, LazyCommand, hookimpl

if TYPE_CHECKING:
    import click

    from ke_weights.suites import Check

SHIP, INSPECT = "Edit and ship", "Inspect"
COMMANDS = {
    "facts": (SHIP, "Keep the facts of a model in a file."),
    "plan": (SHIP, "Compare a file of facts with a model, and print what would change."),
    "apply": (SHIP, "Edit a model so that the facts of a file hold."),
    "rollback": (SHIP, "Return a model to an earlier version."),
    "advise": (SHIP, "Try several editors on a file of facts."),
    "diff": (INSPECT, "Find the facts and the weights that differ between two models."),
}

PATCH_COMMANDS = {
    "sign": "Sign patches or lock files with an Ed25519 key.",
    "verify": "Check the signatures of patches or lock files.",
    "log": "List the versions of a managed model, with authors and sources.",
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    for name, (section, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_plugin_facts.cli.{name}:command", summary, section))
    for name, summary in PATCH_COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_plugin_facts.cli.provenance:{name}", summary), f"patch {name}")


@hookimpl(optionalhook=True)
def ke_read_suite(path: Path) -> tuple[Check, ...] | None:
    """Read a file of facts as a suite of ``ke verify``. Raises BadData for one without facts."""
    if path.suffix.lower() != ".toml":
        return None
    from ke_plugin_facts.fact_file import read_facts, suite_of  # noqa: PLC0415  only for a suite

    found = read_facts(path)
    if not (found.facts or found.keep):
        raise BadData(f"{path} has no facts to check", hint="add one with ke facts add")
    return suite_of(found.facts, found.keep)
