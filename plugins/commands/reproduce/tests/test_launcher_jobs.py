"""The launchers of submitit and Ray without a job: places, lost and failed jobs, and resources."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ke_core.plugin import KEError
from ke_plugin_reproduce.launcher import LaunchSettings, LostJob, last_words

TRACE = (
    'Traceback (most recent call last):\n  File "submission.py", line 55\n' + "x" * 300 + "\nImportError: no module ke"
)


def test_the_end_of_a_traceback_is_kept():
    assert last_words("a\nb") == "a b"
    found = last_words(TRACE)
    assert len(found) == 200
    assert found.startswith("...xxx")
    assert found.endswith("ImportError: no module ke")


@pytest.fixture
def submitit():
    return pytest.importorskip("submitit")


@pytest.fixture
def launcher(submitit, tmp_path):
    """``launcher(cluster)``: a launcher that cannot submit jobs."""
    from ke_plugin_reproduce.launch_submitit import SubmititLauncher

    return lambda cluster: SubmititLauncher(SimpleNamespace(folder=tmp_path / "%j"), cluster)


@pytest.fixture
def sacct(tmp_path, monkeypatch):
    """``sacct(line, status)``: replace Slurm's program by one that prints this line after its header."""

    def install(line, status=0):
        program = tmp_path / "bin/sacct"
        program.parent.mkdir(exist_ok=True)
        header = 'case "$*" in *--noheader*) ;; *) echo "JobID|State|NodeList";; esac'
        shown = f'echo "{line}"' if line else ""
        program.write_text(f"#!/bin/sh\n{header}\n{shown}\nexit {status}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return install


def test_a_job_of_another_cluster_or_machine_is_not_active(launcher, sacct):
    sacct("4711|RUNNING|node1")
    assert launcher("slurm").active("slurm:4711")
    local, here = launcher("local"), f"local@{os.uname().nodename}"
    assert not any(launcher("slurm").active(place) for place in (f"{here}:4711", "4711"))
    assert not any(local.active(place) for place in ("slurm:1", "local@elsewhere:1", "1"))


def test_the_place_of_a_job_names_its_cluster(submitit, launcher, tmp_path):
    found = launcher("local")
    found.executor.submit = lambda _job: SimpleNamespace(job_id="12")
    assert found.submit(None) == f"local@{os.uname().nodename}:12"


def test_a_job_that_slurm_does_not_know_is_lost_after_a_while(launcher, sacct, tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("ke_plugin_reproduce.launch_submitit.monotonic", lambda: clock[0])
    (tmp_path / "81").mkdir()
    found = launcher("slurm")
    sacct("")
    assert found.active("slurm:81")  # not yet in Slurm's database
    clock[0] = 601.0
    sacct("", status=1)
    assert found.active("slurm:81")  # Slurm does not answer
    clock[0] = 1202.0
    sacct("")
    assert not found.active("slurm:81")
    with pytest.raises(LostJob, match="Slurm does not know the job"):
        found.result("slurm:81")


def test_an_exception_in_a_job_is_a_failure_and_a_missing_result_is_a_lost_job(
    submitit, launcher, tmp_path, monkeypatch
):
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 0)
    found, here = launcher("local"), f"local@{os.uname().nodename}"
    for number in ("7", "8"):
        (tmp_path / number).mkdir()
    paths = submitit.LocalJob(folder=tmp_path / "%j", job_id="7").paths
    submitit.core.utils.cloudpickle_dump(("error", TRACE), paths.result_pickle)
    with pytest.raises(KEError, match=f"(?m)job {here}:7 failed: .*ImportError: no module ke$") as caught:
        found.result(f"{here}:7")
    assert caught.value.hint == f"its log: {paths.stderr}"
    (tmp_path / "8/8_0_log.err").write_text("x" * 300 + "\nslurmstepd: error: Detected 1 oom_kill event\n")
    with pytest.raises(LostJob, match=r"(?m)Detected 1 oom_kill event$"):
        found.result(f"{here}:8")


@pytest.fixture
def cluster(monkeypatch):
    """``cluster(**resources)``: build the launcher of Ray for a cluster with one machine."""
    pytest.importorskip("ray")
    from ke_plugin_reproduce import launch_ray

    def build(options, **resources):
        node = {"Alive": True, "Resources": {"CPU": 4.0, **resources}}
        gone = {"Alive": False, "Resources": {"CPU": 4.0, "GPU": 99.0}}
        fake = {"is_initialized": lambda: True, "cluster_resources": lambda: node["Resources"],
                "nodes": lambda: [node, gone]}  # fmt: skip
        for name, function in fake.items():
            monkeypatch.setattr(launch_ray.ray, name, function)
        return launch_ray.build(LaunchSettings(logs=Path("logs"), options=options))

    return build


def test_a_worker_of_ray_that_has_used_a_gpu_ends(cluster, capsys):
    assert cluster({}, GPU=1.0).remote._default_options["max_calls"] == 1
    assert cluster({"num_gpus": 0.5}, GPU=1.0).remote._default_options["max_calls"] == 1
    assert cluster({"num_gpus": 0}, GPU=1.0).remote._default_options["max_calls"] == 0
    assert cluster({}).remote._default_options["max_calls"] == 0
    assert capsys.readouterr().err == ""


def test_resources_that_no_machine_has_are_one_line(cluster, capsys):
    cluster({"num_gpus": 8, "resources": {"TPU": 1}}, GPU=4.0)
    assert " ".join(capsys.readouterr().err.split()) == (
        "no machine of the Ray cluster has the resources of one cell (CPU=1, GPU=8, TPU=1): "
        "the cells wait until one joins"
    )


def test_an_exception_in_a_task_of_ray_is_a_failure_and_a_dead_worker_is_a_lost_job(cluster, monkeypatch):
    from ke_plugin_reproduce.launch_ray import ray

    found = cluster({})
    found._tasks["t"] = None
    errors = [ray.exceptions.RayTaskError("run_cell", TRACE, ImportError("no module ke")),
              ray.exceptions.WorkerCrashedError()]  # fmt: skip
    monkeypatch.setattr(ray, "get", lambda _task: (_ for _ in ()).throw(errors.pop(0)))
    with pytest.raises(KEError, match=r"(?m)task t of ray failed: .*ImportError: no module ke$"):
        found.result("t")
    with pytest.raises(LostJob, match="The worker died unexpectedly"):
        found.result("t")
