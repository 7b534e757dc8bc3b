"""The interface of launchers, which place cells on other machines, and the registered launchers.

A cell is an independent, resumable run folder. A launcher therefore only starts it somewhere, says whether its job has
ended, and cancels it. The folder must be on a file system that all machines share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

from ke_core.app import CallProgress, Plugins, installed_catalog, registered_specs, sanitize, to_bytes
from ke_core.plugin import BadConfig, KEError, loads, write_atomic
from ke_plugin_reproduce.cells import Cell, CellRunner, Result, failed_result

LOCAL = "local"
"""The default: one cell after another in this process, without a launcher."""
JOBS = "jobs"
"""The folder next to the run folders with a file for each submitted cell, and the launcher's logs."""
FAILED = ".failed"
"""The suffix of the file with the error of a failed job. It is deleted when the cell is submitted again."""
CARRIED = ("KE_CACHE_DIR", "KE_DATA_DIR", "KE_DISABLE_PLUGINS", "KE_PLUGIN_TIMEOUT")
"""Environment variables that a job takes from the command. Tokens are not among them."""


class LostJob(Exception):
    """A job that ended without a result: its process was killed, or its machine failed."""


@cache
def _runner() -> CellRunner:
    """Return the runner of this process. It keeps its model for the next job, if the launcher reuses the process."""
    return CellRunner(catalog=installed_catalog(), progress=CallProgress())


def job_file(cell: Cell, suffix: str = ".json") -> Path:
    """Return the file that names the job of a cell, or with the suffix ``FAILED`` the file with the job's error."""
    return cell.folder.parent / JOBS / f"{cell.folder.name}{suffix}"


@frozen(kw_only=True)
class CellJob:
    """A cell with everything that another process needs to run it. Calling it runs the cell and returns its result.

    ``cwd``: relative paths of the cell are relative to it. ``environment``: variables that locate caches and data.
    """

    cell: Cell
    cwd: Path
    environment: Mapping[str, str] = field(factory=dict)

    @classmethod
    def of(cls, cell: Cell) -> CellJob:
        """Return the job of a cell that was planned in this process."""
        carried = {name: os.environ[name] for name in CARRIED if name in os.environ}
        return cls(cell=cell, cwd=Path.cwd(), environment=carried)

    def __call__(self) -> Result:
        """Run the cell in this process. A failure is also saved, because no command may be waiting for the result."""
        os.environ.update(self.environment)
        try:
            os.chdir(self.cwd)
        except OSError as error:
            return failed_result(self.cell, BadConfig(
                f"cannot open {self.cwd} on {os.uname().nodename}: {error.strerror}",
                hint="start the command in a folder that all machines share",
            ))  # fmt: skip
        (result,) = _runner().run([self.cell])
        if result.status == "failed":
            with suppress(KEError):  # a full disk must not replace the error of the cell
                saved = {"error": result.error, "hint": result.hint, "details": result.details}
                write_atomic(job_file(self.cell, FAILED), to_bytes(saved))
        return result


class Launcher(Protocol):
    """Places jobs. ``place`` is the launcher's own id of a job, such as ``slurm:4711``.

    It is saved and given to later commands, so it must not be the id of another job on another cluster or machine.
    """

    def submit(self, job: CellJob) -> str:
        """Start or queue a job. Return its place."""
        ...

    def active(self, place: str) -> bool:
        """Return whether a job is queued or runs. False for an unknown place."""
        ...

    def result(self, place: str) -> Result:
        """Return the result of a job that is no longer active.

        Raises LostJob, and KEError for an error that ended the job and would end the next one.
        """
        ...

    def cancel(self, places: Sequence[str]) -> None:
        """Cancel jobs, and wait a moment for them to end."""
        ...


@frozen(kw_only=True)
class LaunchSettings:
    """What a launcher is built with: a folder for its logs, its options, and how often a job may be requeued."""

    logs: Path
    options: Mapping[str, Any] = field(factory=dict)
    retries: int = 0


@frozen(kw_only=True)
class LauncherSpec:
    """A launcher for ``--launcher NAME``.

    ``attached``: why its jobs end with the command, and ``--detach`` is refused with ``hint``; empty if they do not.
    """

    name: str
    build: Callable[[LaunchSettings], Launcher]
    attached: str = ""
    hint: str = ""


def launcher_spec(plugins: Plugins, name: str) -> LauncherSpec:
    """Return the registered launcher of that name. Raises BadConfig."""
    found = {spec.name: spec for _plugin, specs in registered_specs(plugins, "ke_launchers", LauncherSpec)
             for spec in specs}  # fmt: skip
    if name not in found:
        raise BadConfig(f"no launcher called {name!r}", hint=f"launchers: {', '.join([LOCAL, *sorted(found)])}")
    return found[name]


def last_words(text: str) -> str:
    """Return the end of ``text`` in one line of at most 200 characters. A traceback ends with the error."""
    flat = " ".join(sanitize(text).split())
    return flat if len(flat) <= 200 else "..." + flat[-197:]


def parse_options(words: Sequence[str]) -> dict[str, Any]:
    """Read ``KEY=VALUE`` words. A value is a JSON value, or else a text. Raises BadConfig."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise BadConfig(f"--launcher-option {word!r} is not KEY=VALUE", hint="such as slurm_partition=gpu")
        if key in found:
            raise BadConfig(f"--launcher-option {key} is given twice", hint="give it once")
        try:
            found[key] = loads(value)
        except ValueError:
            found[key] = value
    return found
