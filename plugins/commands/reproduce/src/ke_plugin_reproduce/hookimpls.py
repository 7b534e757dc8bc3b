"""The commands of this plugin, and the launchers submitit and ray."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ke_core.plugin import LazyCommand, hookimpl

if TYPE_CHECKING:
    import click


COMMANDS = {
    "reproduce": ("Evaluate", "Reproduce published tables and figures."),
    "sweep": ("Evaluate", "Run every combination of the settings in a file."),
    "leaderboard": ("Inspect", "Rank the finished runs in a folder."),
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    for name, (section, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_plugin_reproduce.cli.{name}:command", summary, section))
    watch = LazyCommand("watch", "ke_plugin_reproduce.cli.watch:command", "Show the progress of runs until they end.")
    group.add_command(watch, "runs watch")


@hookimpl
def ke_hookspecs() -> list[object]:
    """Declare ``ke_reproductions`` and ``ke_launchers``."""
    from ke_plugin_reproduce import hookspecs  # noqa: PLC0415  only here

    return [hookspecs]


RAY_JOB = "ray job submit --no-wait -- ke sweep FILE --launcher ray detaches the whole command on the cluster"


@hookimpl
def ke_launchers() -> list[Any]:
    """Register submitit and ray, which are extras of this distribution."""
    from ke_plugin_reproduce.launcher import LauncherSpec  # noqa: PLC0415  commands that launch nothing need none

    return [
        LauncherSpec(name="submitit", build=partial(_build, "submitit")),
        LauncherSpec(
            name="ray",
            build=partial(_build, "ray"),
            attached="Ray ends the tasks of a command that has ended",
            hint=RAY_JOB,
        ),
    ]


def _build(name: str, settings: Any) -> Any:
    """Build a launcher. Raises BadConfig if its extra is not installed."""
    from ke_core.plugin import BadConfig  # noqa: PLC0415  as above

    try:
        module = import_module(f"ke_plugin_reproduce.launch_{name}")
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        install = f"pip install 'ke-plugin-reproduce[{name}]', here and where the jobs run"
        raise BadConfig(f"the launcher {name} is not installed", hint=install) from error
    return module.build(settings)


@hookimpl(optionalhook=True)
def ke_checks(plugin: str, plugins: Any) -> Iterable[Any]:
    """Check that every table that ``plugin`` offers can be read."""
    from ke_plugin_reproduce.checks import table_checks  # noqa: PLC0415  imports ke-testing, whose hook this is

    return table_checks(plugin, plugins)
