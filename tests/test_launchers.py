"""A sweep as jobs of submitit and ray: killed jobs resume, and the scores equal those of the local sweep.

``tox -e servers`` installs both and runs these tests. submitit's local executor takes the place of Slurm.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest
from attrs import frozen

from ke_core.app import RECORDS, SCORES, RunFolder, runs_in
from ke_plugin_hf.testing import saved, tiny_model

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900), pytest.mark.xdist_group("launchers")]
EDITORS = ("none", "parrot", "memit", "ice")
SUBMITIT = ("--launcher", "submitit", "--launcher-option", "cluster=local")
BEGUN = 5  # records of a run that is killed
FILE = """
editors = {editors}
datasets = ["atlas"]
models = ["{model}"]
k = {k}
limit = 4

[options.memit]
layers = [1]
tokens = 2000
steps = {steps}

[model]
device = "cpu"
"""


@frozen
class Sweeps:
    """A folder with sweep files, and ``ke`` run in it."""

    folder: Path

    def write(self, name: str, editors: Sequence[str], k: Sequence[object], steps: int = 3) -> None:
        """Write ``NAME.toml``."""
        model = self.folder / "tiny"
        text = FILE.format(editors=json.dumps(editors), k=json.dumps(k), model=model, steps=steps)
        (self.folder / f"{name}.toml").write_text(text, encoding="utf-8")

    def start(self, cache: str, *words: str) -> subprocess.Popen[bytes]:
        """Start ``ke sweep`` with a cache of its own. Its output is a file, which jobs that outlive it keep open."""
        variables = os.environ | {"KE_CACHE_DIR": str(self.folder / cache), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "ke_core", "sweep", *words]
        with (self.folder / "output").open("wb") as output:
            return subprocess.Popen(command, cwd=self.folder, env=variables, stdout=output, stderr=output)

    def ended(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Wait for a command. Return its exit status and its output."""
        return process.wait(), (self.folder / "output").read_text(encoding="utf-8")

    def run(self, cache: str, *words: str) -> str:
        """Run ``ke sweep`` and return its output. Every cell must succeed."""
        status, output = self.ended(self.start(cache, *words))
        assert status == 0, output
        return output

    def scores(self, name: str) -> dict[str, bytes]:
        """Return the scores of each finished run in ``NAME``."""
        found = {path: run for path, run in runs_in(self.folder / name) if isinstance(run, RunFolder) and run.finished}
        return {path.name: (path / SCORES).read_bytes() for path in found}

    def processes(self, name: str, editor: str) -> Iterator[int]:
        """Yield the process of each run of ``editor`` in ``NAME`` that has begun and not ended."""
        for path in (self.folder / name).glob(f"{editor}-*"):
            if not (path / RECORDS).is_file() or len((path / RECORDS).read_bytes().splitlines()) < BEGUN:
                continue
            last = RunFolder.open(path).logged()[-1]
            if last["event"] != "end":
                yield last["process"]


@contextmanager
def killing(find: Callable[[], Iterator[int]]) -> Iterator[list[int]]:
    """Kill the first process that ``find`` finds during the block."""
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set() and not killed:
            for process in find():
                os.kill(process, signal.SIGKILL)
                killed.append(process)
                return
            sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Sweeps:
    """A folder with a tiny model."""
    made = Sweeps(tmp_path_factory.mktemp("sweeps"))
    saved(tiny_model("llama"), made.folder / "tiny")
    return made


@pytest.fixture(scope="module")
def sweeps(place: Sweeps) -> Sweeps:
    """A local sweep of 12 cells, in the folder ``near``."""
    place.write("twelve", EDITORS, [1, 2, "all"])
    place.run("near-cache", "twelve.toml", "--out", "near")
    assert len(place.scores("near")) == 12
    return place


def starts(folder: Path) -> int:
    """Return how many processes have worked on a run."""
    return sum(event["event"] == "start" for event in RunFolder.open(folder).logged())


def test_a_sweep_of_12_cells_over_two_ray_workers_survives_a_killed_worker(sweeps):
    pytest.importorskip("ray")
    with killing(lambda: sweeps.processes("ray", "memit")) as killed:
        notes = sweeps.run("ray-cache", "twelve.toml", "--out", "ray", "--launcher", "ray", "--jobs", "2")
    assert len(killed) == 1
    assert notes.count("ended without a result, resubmitting (1 of 2)") == 1
    assert sweeps.scores("ray") == sweeps.scores("near")
    assert sorted(starts(path) for path, _run in runs_in(sweeps.folder / "ray")) == [1] * 11 + [2]


def test_a_killed_job_of_submitit_resumes_with_the_scores_of_the_local_sweep(sweeps):
    pytest.importorskip("submitit")
    sweeps.write("two", ["parrot", "memit"], [1])
    with killing(lambda: sweeps.processes("two", "memit")) as killed:
        notes = sweeps.run("two-cache", "two.toml", "--out", "two", *SUBMITIT)
    assert len(killed) == 1
    assert "ended without a result, resubmitting (1 of 2)" in notes
    near = sweeps.scores("near")
    assert sweeps.scores("two") == {name: near[name] for name in sweeps.scores("two")}
    assert len(sweeps.scores("two")) == 2


def interrupt(place: Sweeps, name: str, *launcher: str) -> None:
    """Press Ctrl-C in ``ke sweep NAME.toml`` when its run has begun. No process may keep on writing to the run."""
    command = place.start(f"{name}-cache", f"{name}.toml", "--out", name, *launcher)
    while not any(True for _process in place.processes(name, "memit")):
        assert command.poll() is None, place.ended(command)
        sleep(0.05)
    command.send_signal(signal.SIGINT)
    status, output = place.ended(command)
    assert status == 130
    assert f"To resume: ke sweep {name}.toml" in output
    ((_path, run),) = runs_in(place.folder / name)
    assert isinstance(run, RunFolder)
    assert not run.finished
    with run.writing():  # no process has it open
        pass


def test_detached_jobs_of_submitit_are_waited_for_and_ctrl_c_cancels_them(place):
    pytest.importorskip("submitit")
    place.write("long", ["memit"], [1], steps=400)
    notes = place.run("long-cache", "long.toml", "--out", "long", *SUBMITIT, "--detach")
    assert "1 job submitted" in notes
    (file,) = (place.folder / "long/jobs").glob("*.json")
    job = file.read_bytes()
    interrupt(place, "long", *SUBMITIT)
    assert file.read_bytes() == job  # the job of the first command


def test_ctrl_c_cancels_the_tasks_of_ray(place):
    pytest.importorskip("ray")
    place.write("tasks", ["memit"], [1], steps=400)
    interrupt(place, "tasks", "--launcher", "ray")


def test_another_program_with_the_number_of_a_job_is_not_that_job() -> None:
    pytest.importorskip("submitit")
    from ke_plugin_reproduce.launch_submitit import _runs

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert not _runs(other.pid)
        other.communicate(b"\n")
    assert not _runs(other.pid)
