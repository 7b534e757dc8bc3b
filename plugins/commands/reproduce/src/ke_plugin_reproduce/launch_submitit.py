"""Jobs on Slurm, through submitit: https://github.com/facebookincubator/submitit.

Options are the parameters of ``submitit.AutoExecutor``, such as ``slurm_partition``, ``timeout_min`` and
``gpus_per_node``, and ``cluster``: ``slurm`` (default), or ``local`` for processes on this machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import submitit
from attrs import define, field, frozen

from ke_core.app import one_line
from ke_core.plugin import BadConfig, KEError
from ke_plugin_reproduce.cells import Result
from ke_plugin_reproduce.launcher import CellJob, Launcher, LaunchSettings, LostJob, last_words

CLUSTERS = {"slurm": submitit.SlurmJob, "local": submitit.LocalJob}
MINUTES = 24 * 60
"""The default time limit: submitit's own, 5 minutes on Slurm and 2 locally, is shorter than most cells."""
PATIENCE = 10.0  # seconds that cancelled jobs get to end
FORGOTTEN = 600.0  # seconds after which a job that Slurm does not know is lost
REASON = 200  # characters
RULE = "\n" + "-" * 22 + "\n"
"""The lines before and after the traceback in submitit's message about a failed job."""


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
    """Submits every cell as one job.

    A place is ``slurm:ID`` or ``local@MACHINE:ID``: the same number is another job on another cluster.
    """

    executor: Any
    cluster: str
    _jobs: dict[str, Any] = field(factory=dict)
    _unknown: dict[str, float] = field(factory=dict)
    """Since when Slurm has not known a job."""

    def submit(self, job: CellJob) -> str:
        """Submit the job. Raises BadConfig if Slurm refuses it."""
        try:
            made = self.executor.submit(RequeuedCell(job))
        except Exception as error:
            raise BadConfig(f"submitit cannot submit {job.cell.name}: {last_words(str(error))}", hint=HINT) from error
        place = f"{self._origin}:{made.job_id}"
        self._jobs[place] = made
        return place

    def active(self, place: str) -> bool:
        """Return whether the job is queued or runs, also if another process has submitted it."""
        if not place.startswith(f"{self._origin}:"):
            return False
        job = self._job(place)
        if self._orphan(job):
            return _runs(int(job.job_id))
        return not job.done() and not self._forgotten(job)

    def result(self, place: str) -> Result:
        """Return the result. Raises LostJob with the end of the job's error output, and KEError for an exception."""
        job = self._job(place)
        if not job.done():  # submitit would wait for it
            raise LostJob("Slurm does not know the job")
        try:
            found: Result = job.result()
        except submitit.core.utils.FailedJobError as error:
            trace = str(error).partition(RULE)[2].rpartition(RULE)[0] or str(error)
            raise KEError(f"job {place} failed: {last_words(trace)}", hint=f"its log: {job.paths.stderr}") from error
        except Exception as error:
            raise LostJob(last_words(str(error))) from error
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

    @property
    def _origin(self) -> str:
        return self.cluster if self.cluster != "local" else f"local@{os.uname().nodename}"

    def _forgotten(self, job: Any) -> bool:
        """Return whether Slurm has not known the job for a while. It does not know every new job at once."""
        if self.cluster != "slurm" or job.state != "UNKNOWN":
            self._unknown.pop(job.job_id, None)
            return False
        if monotonic() - self._unknown.setdefault(job.job_id, monotonic()) < FORGOTTEN:
            return False
        if not _unknown_to_slurm(job.job_id):  # submitit also returns UNKNOWN if sacct fails
            self._unknown[job.job_id] = monotonic()
            return False
        return True

    def _orphan(self, job: Any) -> bool:
        """Return whether an earlier command started the job on this machine. submitit cannot poll its process."""
        return self.cluster == "local" and job.state == "NO PROCESS AND NO RESULT"

    def _job(self, place: str) -> Any:
        """Return a job, also of an earlier process."""
        if place not in self._jobs:
            number = place.rpartition(":")[2]
            self._jobs[place] = CLUSTERS[self.cluster](folder=self.executor.folder, job_id=number)
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
        raise BadConfig(f"submitit refuses the launcher options: {one_line(str(error), REASON)}", hint=HINT) from error
    return SubmititLauncher(executor, cluster)


def _unknown_to_slurm(number: str) -> bool:
    """Return whether Slurm answers that it has no such job. If it does not answer, the job may run."""
    try:
        found = subprocess.run(  # noqa: S603  the number is Slurm's
            ["sacct", "--noheader", "--jobs", number],  # noqa: S607  wherever Slurm is installed
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return found.returncode == 0 and not found.stdout.strip()


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
