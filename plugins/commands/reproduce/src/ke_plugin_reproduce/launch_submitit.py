"""Jobs on Slurm, through submitit: https://github.com/facebookincubator/submitit.

Options are the parameters of ``submitit.AutoExecutor``, such as ``slurm_partition``, ``timeout_min`` and
``gpus_per_node``, and ``cluster``: ``slurm`` (default), or ``local`` for processes on this machine.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import submitit
from attrs import define, field, frozen

from ke_core.app import one_line
from ke_core.plugin import BadConfig
from ke_plugin_reproduce.cells import Result
from ke_plugin_reproduce.launcher import CellJob, Launcher, LaunchSettings, LostJob

CLUSTERS = {"slurm": submitit.SlurmJob, "local": submitit.LocalJob}
MINUTES = 24 * 60
"""The default time limit: submitit's own, 5 minutes on Slurm and 2 locally, is shorter than most cells."""
PATIENCE = 10.0  # seconds that cancelled jobs get to end
REASON = 200  # characters


@frozen
class RequeuedCell:
    """A job that submitit submits again after its time limit or a preemption. It resumes from its run folder."""

    job: CellJob

    def __call__(self) -> Result:
        """Run the cell."""
        return self.job()

    def checkpoint(self) -> Any:
        """Return the submission that takes the place of this one. submitit calls this in the job, at its signal."""
        return submitit.helpers.DelayedSubmission(self)


@define
class SubmititLauncher:
    """Submits every cell as one job."""

    executor: Any
    cluster: str
    _jobs: dict[str, Any] = field(factory=dict)

    def submit(self, job: CellJob) -> str:
        """Submit the job. Raises BadConfig if Slurm refuses it."""
        try:
            made = self.executor.submit(RequeuedCell(job))
        except Exception as error:
            raise BadConfig(f"submitit cannot submit {job.cell.name}: {_reason(error)}", hint=HINT) from error
        self._jobs[made.job_id] = made
        return str(made.job_id)

    def active(self, place: str) -> bool:
        """Return whether the job is queued or runs, also if another process has submitted it."""
        job = self._job(place)
        return not job.done() or (self._orphan(job) and _runs(int(place)))

    def result(self, place: str) -> Result:
        """Return the result, or raise LostJob with the end of the job's error output."""
        try:
            found: Result = self._job(place).result()
        except Exception as error:
            raise LostJob(_reason(error)) from error
        return found

    def cancel(self, places: Sequence[str]) -> None:
        """Cancel the jobs (scancel)."""
        for job in map(self._job, places):
            if not self._orphan(job):
                job.cancel(check=False)
            elif _runs(int(job.job_id)):
                _signaled(int(job.job_id), signal.SIGINT)
        end = monotonic() + PATIENCE
        while any(self.active(place) for place in places) and monotonic() < end:
            sleep(0.1)

    def _orphan(self, job: Any) -> bool:
        """Return whether an earlier command started the job on this machine. submitit cannot poll its process."""
        return self.cluster == "local" and job.state == "NO PROCESS AND NO RESULT"

    def _job(self, place: str) -> Any:
        """Return a job, also of an earlier process."""
        if place not in self._jobs:
            self._jobs[place] = CLUSTERS[self.cluster](folder=self.executor.folder, job_id=place)
        return self._jobs[place]


HINT = "see the parameters of submitit.AutoExecutor; --launcher-option cluster=local runs without Slurm"


def build(settings: LaunchSettings) -> Launcher:
    """Return the launcher. Raises BadConfig for unknown options, and without Slurm."""
    options = {"cluster": "slurm", "timeout_min": MINUTES, "name": "ke", **settings.options}
    cluster = options.pop("cluster")
    if cluster not in CLUSTERS:
        raise BadConfig(f"submitit has no cluster {cluster!r} here", hint=f"clusters: {', '.join(CLUSTERS)}")
    times = {f"{cluster}_max_num_timeout": settings.retries}
    try:
        executor = submitit.AutoExecutor(folder=settings.logs.resolve() / "%j", cluster=cluster, **times)
        executor.update_parameters(**options)
    except Exception as error:
        raise BadConfig(f"submitit refuses the launcher options: {_reason(error)}", hint=HINT) from error
    return SubmititLauncher(executor, cluster)


def _reason(error: Exception) -> str:
    return one_line(str(error), REASON)


def _runs(process: int) -> bool:
    """Return whether a job runs as this process. After a restart, the number may be that of another program."""
    if not _signaled(process, 0):
        return False
    if not Path("/proc/self").exists():  # not on Linux
        return True
    try:
        return b"submitit" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return False


def _signaled(process: int, number: int) -> bool:
    """Send a signal (0: none). Return whether the process exists."""
    try:
        os.kill(process, number)
    except OSError:
        return False
    return True
