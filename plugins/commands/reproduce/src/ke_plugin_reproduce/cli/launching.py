"""Options of commands that can run their cells through a launcher."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click
from attrs import fields_dict, frozen

from ke_core.app import App, count_noun, err, literal
from ke_core.app import options as shared
from ke_core.plugin import BadConfig, Progress, locked
from ke_plugin_reproduce.cells import CellRunner
from ke_plugin_reproduce.launcher import JOBS, LOCAL, LaunchSettings, launcher_spec, parse_options
from ke_plugin_reproduce.launching import LaunchedRunner

RETRIES = 2
LOCK = ".lock"
LAUNCH_OPTIONS = shared.section(
    "Launcher",
    click.option("--launcher", default=LOCAL, show_default=True, metavar="NAME",
                 help="Where the runs are computed: local (in this process), submitit (Slurm), ray."),
    click.option("--launcher-option", "launcher_options", multiple=True, metavar="KEY=VALUE",
                 help="Option of the launcher (repeatable), such as slurm_partition=gpu or num_gpus=1."),
    click.option("--jobs", type=click.IntRange(1), metavar="N", help="Run at most N jobs at once. [default: all]"),
    click.option("--retries", type=click.IntRange(0), metavar="N",
                 help=f"Resubmit a job that was killed, up to N times. [default: {RETRIES}]"),
    click.option("--detach", is_flag=True, help="Submit the jobs and return. The same command without it waits."),
)  # fmt: skip


@frozen(kw_only=True)
class Launch:
    """The values of ``LAUNCH_OPTIONS``."""

    launcher: str = LOCAL
    launcher_options: tuple[str, ...] = ()
    jobs: int | None = None
    retries: int | None = None
    detach: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Launch:
        """Return the launch options among a command's options. Raises UsageError for those without effect."""
        found = cls(**{name: given[name] for name in fields_dict(cls)})
        if found.launcher == LOCAL:
            defaults = cls()
            for name in fields_dict(cls):
                if getattr(found, name) != getattr(defaults, name):
                    option = name.removesuffix("s") if name == "launcher_options" else name
                    raise click.UsageError(f"--{option.replace('_', '-')} needs --launcher submitit or ray")
        if found.detach and found.jobs is not None:
            raise click.UsageError("--jobs limits the jobs that the command waits for; it has no effect with --detach")
        return found

    def runner(self, app: App, root: Path, shown: Progress) -> CellRunner | LaunchedRunner:
        """Return what runs the cells of a command. Raises BadConfig for a missing launcher or wrong options."""
        if self.launcher == LOCAL:
            return CellRunner(catalog=app.catalog, progress=shown)
        spec = launcher_spec(app.plugins, self.launcher)
        if self.detach and spec.attached:
            raise BadConfig(f"--detach does not work with {spec.name}: {spec.attached}", hint=spec.hint)
        retries = RETRIES if self.retries is None else self.retries
        settings = LaunchSettings(
            logs=root / JOBS / "logs", options=parse_options(self.launcher_options), retries=retries
        )
        return LaunchedRunner(
            catalog=app.catalog,
            launcher=spec.build(settings),
            name=spec.name,
            at_once=self.jobs,
            retries=retries,
            note=lambda line: err().print(literal(line, "yellow"), soft_wrap=True),
        )


def only_command(root: Path) -> AbstractContextManager[None]:
    """Lock a folder. Raises BadRun if another command runs cells there: each would submit all of them."""
    return locked(root / LOCK, busy=f"another ke sweep or ke reproduce is running the cells in {root}")


def print_detached(count: int, root: Path) -> None:
    """Say how to follow ``count`` jobs that the command does not wait for."""
    words = f"{count_noun(count, 'job')} submitted; to follow: ke runs watch {root}; the same command without --detach"
    err().print(literal(f"{words} waits for them and cancels them on Ctrl-C"), soft_wrap=True)
