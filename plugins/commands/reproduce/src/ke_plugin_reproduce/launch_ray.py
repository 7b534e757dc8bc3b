"""Jobs on a Ray cluster: https://docs.ray.io. Each cell is one task.

Options: ``address`` of the cluster (default: RAY_ADDRESS, else a cluster is started on this machine), and the resources
of each cell: ``num_cpus`` (1), ``num_gpus`` (1 if the cluster has GPUs, else 0), ``memory`` in bytes, ``resources``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from ke_core.app import err, literal, one_line
from ke_core.plugin import BadConfig, KEError
from ke_plugin_reproduce.cells import Result
from ke_plugin_reproduce.launcher import CellJob, Launcher, LaunchSettings, LostJob, last_words

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # sends nothing to anyone
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # `uv run` would copy the folder to every worker

import ray  # reads these variables when it is imported

RESOURCES = ("num_cpus", "num_gpus", "memory", "resources")
PATIENCE = 10.0  # seconds that cancelled tasks get to end
REASON = 200  # characters


def run_cell(job: CellJob) -> Result:
    """Run a cell in a worker."""
    return job()


@define
class RayLauncher:
    """Submits every cell as one task. ``remote``: ``run_cell`` with its resources.

    A lost task is submitted again by the caller, as for every launcher.
    """

    remote: Any
    _tasks: dict[str, Any] = field(factory=dict)

    def submit(self, job: CellJob) -> str:
        """Queue the task."""
        made = self.remote.options(name=job.cell.folder.name).remote(job)
        place = str(made.hex()[:16])  # the part that differs between tasks
        self._tasks[place] = made
        return place

    def active(self, place: str) -> bool:
        """Return whether the task is queued or runs. Tasks of earlier commands ended with these."""
        return place in self._tasks and not ray.wait([self._tasks[place]], timeout=0)[0]

    def result(self, place: str) -> Result:
        """Return the result. Raises LostJob if the worker died, and KEError for an exception in the task."""
        try:
            found: Result = ray.get(self._tasks[place])
        except ray.exceptions.RayTaskError as error:
            hint = "check that all machines of the cluster have the same installation of ke"
            raise KEError(f"task {place} of ray failed: {last_words(str(error))}", hint=hint) from error
        except ray.exceptions.RayError as error:
            raise LostJob(one_line(str(error), REASON)) from error
        return found

    def cancel(self, places: Sequence[str]) -> None:
        """Interrupt the tasks, as Ctrl-C would."""
        tasks = [self._tasks[place] for place in places]
        for task in tasks:
            ray.cancel(task)
        if tasks:
            ray.wait(tasks, num_returns=len(tasks), timeout=PATIENCE)


def build(settings: LaunchSettings) -> Launcher:
    """Connect to the cluster, or start one on this machine. Raises BadConfig."""
    options = dict(settings.options)
    address = options.pop("address", None)
    if unknown := [key for key in options if key not in RESOURCES]:
        keys = ", ".join(("address", *RESOURCES))
        raise BadConfig(f"the launcher ray has no option {unknown[0]!r}", hint=f"options: {keys}")
    try:
        if not ray.is_initialized():
            ray.init(address=address, include_dashboard=None if address else False,
                     log_to_driver=False, logging_level="error")  # fmt: skip
        options.setdefault("num_gpus", 1 if ray.cluster_resources().get("GPU") else 0)
        # A process that has used a GPU ends, because it would keep the memory that the next cell needs.
        remote = ray.remote(max_retries=0, max_calls=1 if options["num_gpus"] else 0, **options)(run_cell)
    except (ConnectionError, ValueError, RuntimeError, TypeError) as error:
        raise BadConfig(f"cannot use the Ray cluster: {one_line(str(error), REASON)}",
                        hint="check the launcher options, and RAY_ADDRESS") from error  # fmt: skip
    _warn_if_too_large(options)
    return RayLauncher(remote)


def _warn_if_too_large(options: Mapping[str, Any]) -> None:
    """Print a line if no machine has the resources of one cell: Ray lets its task wait without a message."""
    named = {"CPU": options.get("num_cpus", 1), "GPU": options["num_gpus"], "memory": options.get("memory")}
    wanted = {name: amount for name, amount in {**named, **(options.get("resources") or {})}.items() if amount}
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(machine.get(name, 0) >= amount for name, amount in wanted.items()) for machine in machines):
        return
    words = ", ".join(f"{name}={amount}" for name, amount in wanted.items())
    line = f"no machine of the Ray cluster has the resources of one cell ({words}): the cells wait until one joins"
    err().print(literal(line, "yellow"), soft_wrap=True)
