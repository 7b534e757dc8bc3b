"""Cells as jobs of a launcher: submitted, waited for, resubmitted and cancelled. The launcher here runs no process."""

import json
import pickle
import signal
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from attrs import define, evolve, field

from ke_core.app import SCORES, EvalRequest, ModelChoice, RunFolder, read_catalog
from ke_core.plugin import BadConfig, hookimpl, locked
from ke_plugin_reproduce.cells import Cell, CellRunner, Result
from ke_plugin_reproduce.cli.launching import LOCK, Launch
from ke_plugin_reproduce.launcher import (
    JOBS,
    CellJob,
    LauncherSpec,
    LaunchSettings,
    LostJob,
    launcher_spec,
    parse_options,
)
from ke_plugin_reproduce.launching import LaunchedRunner
from ke_plugin_reproduce.sweep import write_summary
from ke_plugin_reproduce.watching import Watcher
from ke_testing.fakes import SilentProgress


@define
class CountingLauncher:
    """Runs a job when its result is read. The first ``losses[NAME]`` jobs of a cell are lost."""

    runner: CellRunner
    losses: Counter = field(factory=Counter)
    polls: int = 2
    jobs: dict = field(factory=dict)
    looks: Counter = field(factory=Counter)
    cancelled: list = field(factory=list)
    most: int = 0

    def submit(self, job):
        place = f"job-{len(self.jobs) + 1}"
        self.jobs[place] = pickle.loads(pickle.dumps(job))
        self.most = max(self.most, sum(self.looks[each] < self.polls for each in self.jobs))
        return place

    def active(self, place):
        self.looks[place] += 1
        return place in self.jobs and self.looks[place] < self.polls

    def result(self, place):
        cell = self.jobs[place].cell
        if self.losses[cell.name]:
            self.losses[cell.name] -= 1
            raise LostJob("killed")
        (result,) = self.runner.run([cell])
        return result

    def cancel(self, places):
        self.cancelled += places

    @property
    def submitted(self):
        return [job.cell.name for job in self.jobs.values()]


@pytest.fixture
def world(plugins, tmp_path, ke_cache_dir):
    catalog = read_catalog(plugins)
    local = CellRunner(catalog=catalog, progress=SilentProgress())
    launcher = CountingLauncher(local)
    notes = []

    def cell(name, root="far", **changes):
        request = EvalRequest(editor="sayer", dataset="toy", model=ModelChoice(reference="echo:1"))
        return Cell(name=name, request=evolve(request, **changes), folder=tmp_path / root / name)

    def runner(**settings):
        return LaunchedRunner(
            catalog=catalog, launcher=launcher, name="counting", note=notes.append, poll=0, **settings
        )

    return SimpleNamespace(local=local, launcher=launcher, notes=notes, cell=cell, runner=runner, catalog=catalog)


def cells(world, root="far"):
    words = ("Rome", "Madrid", "Paris")
    return [world.cell(word, root, options={"sayer": {"word": word}}) for word in words]


def scores(found):
    return [(cell.folder / SCORES).read_bytes() for cell in found]


def test_launched_cells_have_the_scores_of_local_ones(world):
    world.local.run(cells(world, "near"))
    lines = []
    results = world.runner().run(cells(world), report=lambda cell, result: lines.append((cell.name, result is None)))
    assert [(result.cell.name, result.status, result.known) for result in results] == [
        (name, "done", False) for name in ("Rome", "Madrid", "Paris")
    ]
    assert scores(cells(world)) == scores(cells(world, "near"))
    assert world.launcher.submitted == ["Rome", "Madrid", "Paris"]
    assert Counter(lines) == {(name, begins): 1 for name in ("Rome", "Madrid", "Paris") for begins in (True, False)}


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (2, 2), (None, 3)])
def test_no_more_jobs_than_asked_for_are_active(world, at_once, most):
    world.runner(at_once=at_once).run(cells(world))
    assert world.launcher.most == most


def test_a_lost_job_is_submitted_again_and_a_failed_cell_is_not(world):
    world.launcher.losses["Rome"] = 2
    found = [*cells(world), world.cell("surgeon", editor="surgeon")]
    results = world.runner(retries=2).run(found)
    assert [result.status for result in results] == ["done", "done", "done", "failed"]
    assert "surgeon changes weights" in results[-1].error
    assert Counter(world.launcher.submitted) == {"Rome": 3, "Madrid": 1, "Paris": 1, "surgeon": 1}
    assert world.notes == [
        "Rome: job job-1 ended without a result, resubmitting (1 of 2): killed",
        "Rome: job job-5 ended without a result, resubmitting (2 of 2): killed",
    ]


def test_a_job_that_is_always_lost_fails_with_the_reason_and_does_not_stop_the_others(world):
    world.launcher.losses["Rome"] = 9
    rome, madrid, _paris = world.runner(retries=1).run(cells(world))
    assert (rome.status, madrid.status) == ("failed", "done")
    assert rome.error == "job job-4 of counting ended without a result, as did the jobs before it: killed"
    assert str(rome.cell.folder.parent / JOBS) in rome.hint
    assert world.launcher.submitted.count("Rome") == 2


def test_finished_cells_and_cells_that_cannot_be_resolved_are_not_submitted(world):
    world.local.run(cells(world)[:1])
    found = [*cells(world), world.cell("nobody", editor="nobody")]
    results = world.runner().run(found)
    assert [(result.status, result.known) for result in results] == [
        ("done", True), ("done", False), ("done", False), ("failed", False),
    ]  # fmt: skip
    assert world.launcher.submitted == ["Madrid", "Paris"]
    assert world.runner().submit(cells(world)) == 0


def test_an_interrupt_cancels_the_active_jobs(world, monkeypatch):
    monkeypatch.setattr(
        "ke_plugin_reproduce.launching.sleep", lambda _seconds: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        world.runner(at_once=2).run(cells(world))
    assert world.launcher.cancelled == ["job-1", "job-2"]


@pytest.fixture
def interruptible():
    """Raise KeyboardInterrupt for SIGINT, also in a process that was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_a_job_is_submitted_cancels_that_job(world, monkeypatch):
    submit = type(world.launcher).submit

    def interrupted(self, job):
        signal.raise_signal(signal.SIGINT)
        return submit(self, job)

    monkeypatch.setattr(type(world.launcher), "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.runner().run(cells(world))
    assert world.launcher.cancelled == ["job-1"]
    assert json.loads((cells(world)[0].folder.parent / JOBS / "Rome.json").read_bytes())["place"] == "job-1"


def test_a_job_whose_folder_is_in_use_is_lost(world):
    rome = cells(world)[0]
    world.local.run([rome])
    (rome.folder / SCORES).unlink()
    with RunFolder.open(rome.folder).writing():
        (result,) = world.runner(retries=1).run([rome])
    (note,) = world.notes
    assert note.startswith("Rome: job job-1 ended without a result, resubmitting (1 of 1): another process is writing")
    assert (result.status, len(world.launcher.jobs)) == ("failed", 2)
    assert "as did the jobs before it: another process is writing to" in result.error
    assert world.runner().run([rome])[0].status == "done"


def test_the_same_command_waits_for_the_jobs_of_a_detached_one(world):
    assert world.runner().submit(cells(world)) == 3
    assert not (cells(world)[0].folder / SCORES).exists()
    assert world.runner().submit(cells(world)[:1]) == 1  # still active: not submitted twice
    world.launcher.looks.clear()
    results = world.runner().run(cells(world))
    assert [result.status for result in results] == ["done"] * 3
    assert len(world.launcher.jobs) == 3
    place = json.loads((cells(world)[0].folder.parent / JOBS / "Rome.json").read_bytes())
    assert place == {"launcher": "counting", "place": "job-1"}


def test_jobs_of_another_launcher_and_damaged_files_are_ignored(world):
    folder = cells(world)[0].folder.parent / JOBS
    folder.mkdir(parents=True)
    (folder / "Rome.json").write_text('{"launcher": "other", "place": "job-1"}')
    (folder / "Madrid.json").write_text("[")
    assert [result.status for result in world.runner().run(cells(world))] == ["done"] * 3


def test_a_job_carries_its_folder_and_the_variables_of_caches_but_no_token(world, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_SERVE_TOKEN", "secret")
    monkeypatch.setenv("KE_DATA_DIR", "data")
    job = CellJob.of(cells(world)[0])
    assert job.cwd == tmp_path
    assert job.environment["KE_DATA_DIR"] == "data"
    assert b"secret" not in pickle.dumps(job)


def test_a_job_on_a_machine_without_the_folder_fails_with_the_next_step(world, tmp_path):
    job = CellJob(cell=cells(world)[0], cwd=tmp_path / "elsewhere")
    result = job()
    assert result.status == "failed"
    assert result.error.startswith(f"cannot open {tmp_path / 'elsewhere'} on ")
    assert result.hint == "start the command in a folder that all machines share"


def test_options_are_json_values_or_texts():
    words = ("slurm_partition=gpu", "num_gpus=0.5", 'resources={"TPU": 1}', "slurm_time=1-00:00:00", "flag=true")
    assert parse_options(words) == {
        "slurm_partition": "gpu", "num_gpus": 0.5, "resources": {"TPU": 1}, "slurm_time": "1-00:00:00", "flag": True,
    }  # fmt: skip
    with pytest.raises(BadConfig, match="'gpu' is not KEY=VALUE"):
        parse_options(["gpu"])
    with pytest.raises(BadConfig, match="a is given twice"):
        parse_options(["a=1", "a=2"])


USUAL = {"launcher": "local", "launcher_options": (), "jobs": None, "retries": None, "detach": False}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"jobs": 2}, "--jobs needs --launcher"),
        ({"retries": 0}, "--retries needs --launcher"),
        ({"detach": True}, "--detach needs --launcher"),
        ({"launcher_options": ("a=1",)}, "--launcher-option needs --launcher"),
        ({"launcher": "ray", "detach": True, "jobs": 2}, "--jobs limits the jobs that the command waits for"),
    ],
)
def test_options_without_effect_are_refused(given, error):
    with pytest.raises(click.UsageError, match=error):
        Launch.of(USUAL | given)


@pytest.mark.parametrize("name", ["ray", "submitit"])
def test_a_missing_extra_names_the_command_that_installs_it(plugins, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"ke_plugin_reproduce.launch_{name}", raising=False)
    with pytest.raises(BadConfig, match=f"the launcher {name} is not installed") as caught:
        launcher_spec(plugins, name).build(LaunchSettings(logs=Path("logs")))
    assert f"pip install 'ke-plugin-reproduce[{name}]'" in caught.value.hint


def test_unknown_launchers_and_detached_ray_are_refused(plugins, tmp_path):
    with pytest.raises(BadConfig, match="no launcher called 'slurm'") as caught:
        launcher_spec(plugins, "slurm")
    assert caught.value.hint == "launchers: local, ray, submitit"
    app = SimpleNamespace(plugins=plugins)
    with pytest.raises(BadConfig, match="--detach does not work with ray") as caught:
        Launch(launcher="ray", detach=True).runner(app, tmp_path, SilentProgress())
    assert caught.value.hint.startswith("ray job submit --no-wait")


def test_the_states_of_runs_are_read_from_their_files(world, tmp_path):
    root = tmp_path / "far"
    rome, madrid, paris = cells(world)
    world.local.run([rome, madrid])
    (madrid.folder / SCORES).unlink()
    watcher = Watcher(root)
    assert [(run.name, run.state) for run in watcher.look()] == [("Madrid", "incomplete"), ("Rome", "done")]
    RunFolder.open(madrid.folder).log("start")
    world.runner().submit([paris])
    (madrid_run, _rome, paris_run) = watcher.look()
    assert (madrid_run.state, madrid_run.age is None, paris_run.state) == ("running", False, "submitted")
    log = RunFolder.open(madrid.folder).log
    log("end", ended="interrupted")
    assert watcher.look()[0].state == "interrupted"
    log("start")
    log("failure", what="ValueError", message="no room")
    log("end", ended="failed")
    assert (watcher.look()[0].state, watcher.look()[0].why) == ("failed", "no room")
    log("start")
    log("failure", what="SystemExit", message="144")  # requeued by submitit
    log("end", ended="failed")
    assert watcher.look()[0].state == "submitted"
    (madrid.folder / "run.json").write_text("{")
    assert watcher.look()[0].state == "damaged"


def test_a_finished_cell_is_done_although_the_summary_says_failed(world, tmp_path):
    found = cells(world)
    world.local.run(found[:1])
    failures = {cell.name: Result(cell=cell, status="failed", error="no room") for cell in found[:2]}
    write_summary(tmp_path / "far", found, failures)
    states = [(run.name, run.state, run.why) for run in Watcher(tmp_path / "far").look()]
    assert states == [("Rome", "done", ""), ("Madrid", "failed", "no room"), ("Paris", "waiting", "")]


def test_a_detached_job_that_fails_before_its_run_begins_is_watched_as_failed(world, tmp_path, monkeypatch):
    monkeypatch.setattr("ke_plugin_reproduce.launcher._runner", lambda: world.local)
    rome, surgeon = cells(world)[0], world.cell("surgeon", editor="surgeon")
    world.runner().submit([rome, surgeon])

    def watched():
        return [(run.name, run.state, run.why) for run in Watcher(tmp_path / "far").look()]

    assert watched() == [("Rome", "submitted", ""), ("surgeon", "submitted", "")]
    for job in world.launcher.jobs.values():
        job()
    (done, (name, state, why)) = watched()
    assert (done, name, state) == (("Rome", "done", ""), "surgeon", "failed")
    assert why.startswith("surgeon changes weights")
    world.launcher.looks["job-2"] = world.launcher.polls  # it has ended
    world.runner().submit([surgeon])
    assert watched() == [("Rome", "done", ""), ("surgeon", "submitted", "")]


class Borrowed:
    """A plugin with a launcher that runs each job in this process."""

    def __init__(self, launcher):
        self.launcher = launcher

    @hookimpl(optionalhook=True)
    def ke_launchers(self):
        return [LauncherSpec(name="borrowed", build=lambda _settings: self.launcher)]


SWEEP = 'editors = ["sayer", "surgeon"]\ndatasets = ["toy"]\nmodels = ["echo:1"]\nseeds = [0, 1]\n'


@pytest.mark.integration
def test_a_sweep_uses_the_launcher_of_a_plugin(ke, plugins, world):
    plugins.register(Borrowed(world.launcher), "borrowed")
    Path("words.toml").write_text(SWEEP)
    options = ("--launcher", "borrowed")
    status, _out, err = ke("sweep", "words.toml", *options, "--detach")
    assert status == 0, err
    assert "4 jobs submitted; to follow: ke runs watch runs/words" in err
    states = {run["name"]: run["state"] for run in json.loads(ke("runs", "watch", "runs/words", "--json")[1])}
    assert states == dict.fromkeys(("sayer seed=0", "sayer seed=1", "surgeon seed=0", "surgeon seed=1"), "submitted")
    world.launcher.looks.clear()
    status, out, err = ke("sweep", "words.toml", *options, "--jobs", "2")
    assert status == 1
    assert "surgeon seed=0 failed: surgeon changes weights" in err
    assert "toy on 1" in out
    assert len(world.launcher.jobs) == 4
    for words in (("--watch", "runs/words"), ("runs/words", "--watch"), ("list", "runs/words", "--watch")):
        assert ke("runs", *words) == ke("runs", "watch", "runs/words")
    shown = " ".join(ke("runs", "watch", "runs/words", "--once")[1].split())
    assert "2 done, 2 failed" in shown
    assert "surgeon changes weights" in shown


@pytest.mark.parametrize("options", [(), ("--launcher", "borrowed"), ("--launcher", "borrowed", "--detach")])
def test_a_second_sweep_of_one_folder_is_refused(ke, plugins, world, options):
    plugins.register(Borrowed(world.launcher), "borrowed")
    Path("words.toml").write_text(SWEEP)
    with locked(Path("runs/words") / LOCK):
        status, _out, err = ke("sweep", "words.toml", *options)
    assert status == 2
    assert "error: another ke sweep or ke reproduce is running the cells in runs/words" in err
    assert "wait until it has finished, or choose another folder" in err
    assert world.launcher.jobs == {}


def test_detached_cells_after_a_refused_one_are_submitted(ke, plugins, world, monkeypatch):
    plugins.register(Borrowed(world.launcher), "borrowed")
    Path("words.toml").write_text(SWEEP)
    submit, refusals = type(world.launcher).submit, ["Socket timed out"]

    def refuse_first(self, job):
        if refusals:
            raise BadConfig(refusals.pop())
        return submit(self, job)

    monkeypatch.setattr(type(world.launcher), "submit", refuse_first)
    status, _out, err = ke("sweep", "words.toml", "--launcher", "borrowed", "--detach")
    assert status == 1
    assert "sayer seed=0 failed: Socket timed out" in err
    assert "3 jobs submitted" in err
    assert len(world.launcher.jobs) == 3


TABLE = """
paper = "Somebody 2020, Table 1"
title = "who says Rome"
labels = ["Method"]

[set]
dataset = "toy"

[pick]
metric = "accuracy"
aspect = "efficacy"
style = "direct"

[models.Small]
ids = ["echo:1"]

[[columns]]
heading = "edits made"

[[rows]]
labels = ["sayer"]
model = "Small"
set = { editor = "sayer" }
printed = [50.0]

[[rows]]
labels = ["other"]
model = "Small"
set = { editor = "other" }
printed = [50.0]
"""


@pytest.mark.integration
def test_a_published_table_uses_the_launcher_of_a_plugin(ke, plugins, world):
    plugins.register(Borrowed(world.launcher), "borrowed")
    Path("mine.toml").write_text(TABLE)
    reproduce = ("reproduce", "./mine.toml", "--model", "echo:1")
    expected = ke(*reproduce, "--out", "near", "--json")[1]
    launched = (*reproduce, "--out", "far", "--launcher", "borrowed")
    status, _out, err = ke(*launched, "--detach")
    assert (status, "2 jobs submitted; to follow: ke runs watch far" in err) == (0, True), err
    status, out, err = ke(*launched, "--json")
    assert status == 0, err
    assert json.loads(out) == json.loads(expected)
    assert len(world.launcher.jobs) == 2
    assert "sayer on toy, k = 1, with echo:1: done" in err


@pytest.mark.integration
def test_tables_share_a_folder_without_a_launcher_and_not_with_one(ke, plugins, world, monkeypatch):
    plugins.register(Borrowed(world.launcher), "borrowed")
    Path("mine.toml").write_text(TABLE)
    reproduce = ("reproduce", "./mine.toml", "--model", "echo:1", "--out", "far")
    with locked(Path("far") / LOCK):
        assert ke(*reproduce, "--launcher", "borrowed")[0] == 2
        assert ke(*reproduce)[0] == 0
    monkeypatch.setattr(type(world.launcher), "submit", lambda *_: (_ for _ in ()).throw(BadConfig("no partition")))
    status, _out, err = ke(*reproduce[:-1], "other", "--launcher", "borrowed", "--detach")
    assert (status, err.count("not run: no partition")) == (1, 2)
    assert "0 jobs submitted" in err


@pytest.mark.integration
def test_watching_a_missing_folder_is_a_one_line_error(ke):
    status, _out, err = ke("runs", "watch", "nowhere")
    assert (status, err.splitlines()[0]) == (2, "error: there is no folder nowhere")


def test_results_can_be_pickled(world):
    result = Result(cell=cells(world)[0], status="failed", error="x")
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_refused_job_fails_its_cell_and_leaves_the_others(world, monkeypatch):
    submit = world.launcher.submit

    def refuse(job):
        if job.cell.name == "Madrid":
            raise BadConfig("Socket timed out")
        return submit(job)

    monkeypatch.setattr(type(world.launcher), "submit", lambda _self, job: refuse(job))
    results = world.runner().run(cells(world))
    assert [(result.cell.name, result.status) for result in results] == [
        ("Rome", "done"), ("Madrid", "failed"), ("Paris", "done"),
    ]  # fmt: skip
    assert world.launcher.cancelled == []
