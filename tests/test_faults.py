"""Faults of a machine during a run: no record is lost, and no wrong number is printed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file, save_file

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import run_ke

pytestmark = pytest.mark.integration

CLOCK = '''
"""A clock that jumps back by a day or ahead by a month at every call."""
import random
import sys
import time

whole = time.time
time.time = lambda: whole() + random.choice([-86400.0, 0.0, 2592000.0])
from ke_core.cli.main import main
sys.exit(main())
'''
SWAPPED = '''
"""``ke`` in which other weights are written into the model's file before the third edit."""
import sys
from pathlib import Path

import ke_core.runner.steps as loop
from ke_core.cli.main import main

whole, seen = loop.Runner.begin, []


def begin(self, group):
    seen.append(group)
    if len(seen) == 3:
        with Path("model/model.safetensors").open("r+b") as file:
            file.write(Path("other.safetensors").read_bytes())
    return whole(self, group)


loop.Runner.begin = begin
sys.exit(main())
'''
READ_ONLY = '''
"""``ke`` whose folder becomes read-only at the third edit, also for root, as after a disk failure."""
import errno
import os
import sys

import ke_core.runner.steps as loop
from ke_core.cli.main import main

whole, seen = loop.Runner.begin, []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def begin(self, group):
    seen.append(group)
    return whole(self, group)


def refuse(*paths):
    if len(seen) >= 3 and any(os.path.abspath(os.fsdecode(path)).startswith(os.path.abspath("run")) for path in paths):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), paths[0])


def watch(event, given):
    if event == "open" and isinstance(given[0], (str, bytes)) and isinstance(given[2], int) and given[2] & WRITES:
        refuse(given[0])
    elif event in ("os.remove", "os.rename", "os.mkdir"):
        refuse(*(path for path in given[:2] if isinstance(path, (str, bytes))))


loop.Runner.begin = begin
sys.addaudithook(watch)
sys.exit(main())
'''
SLOW = '''
"""``ke`` that creates a file at the third group (`asking`) and at `scoring`, and waits for another file."""
import signal
import sys
import time
from pathlib import Path

import ke_core.runner.evaluate as evaluation
import ke_core.runner.steps as loop
from ke_core.cli.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background processes with SIGINT ignored
ask, score, seen = loop.Runner.begin, evaluation.score_run, []


def said(where):
    try:
        Path(where).touch()
        while not Path(f"{where}.go").exists():
            time.sleep(0.02)
    except KeyboardInterrupt:  # the second Ctrl-C arrives while the first is handled
        Path(f"{where}.left").touch()
        time.sleep(60)
        raise


def begin(self, group):
    seen.append(group)
    if len(seen) == 3:
        said("asking")
    return ask(self, group)


def score_run(*given, **how):
    said("scoring")
    return score(*given, **how)


loop.Runner.begin, evaluation.score_run = begin, score_run
sys.exit(main())
'''
PARROT = ("eval", "--editor", "parrot", "--dataset", "atlas", "--limit", "6")
NONE = ("eval", "--editor", "none", "--dataset", "atlas", "--limit", "6", "--model", "./model")


@pytest.fixture
def start(tmp_path):
    """Start ``ke`` in a new process."""

    def run(*arguments, code="import sys; from ke_core.cli.main import main; sys.exit(main())"):
        environment = os.environ | {"OMP_NUM_THREADS": "1", "KE_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "100"}
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return run


@pytest.fixture
def ke(start, tmp_path):
    """Run ``ke`` in a new process. Return exit status, standard output and standard error."""

    def run(*arguments, code=""):
        if not code:
            done = run_ke(tmp_path, *arguments)
            return done.returncode, done.stdout, done.stderr
        process = start(*arguments, code=code)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    return run


def wait_for(path):
    """Wait until a process has created a file."""
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"no process came to {path.name}"
        time.sleep(0.02)


def answers(folder):
    """Return the records without times and memory."""
    timed = ("seconds", "memory", "first", "passes")
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return sorted(str({name: value for name, value in line.items() if name not in timed}) for line in lines)


def test_a_clock_that_jumps_changes_no_number(ke, tmp_path):
    assert ke(*PARROT, "--out", "calm")[0] == 0
    status, _out, err = ke(*PARROT, "--out", "jumping", code=CLOCK)
    assert status == 0, err
    calm, jumping = ((tmp_path / name / "scores.json").read_bytes() for name in ("calm", "jumping"))
    assert calm == jumping
    assert b'"seconds":-' not in (tmp_path / "jumping/records.jsonl").read_bytes()


def test_changed_weights_are_another_run_when_resuming(ke, tmp_path):
    saved(tiny_model("llama", seed=1), tmp_path / "model")
    assert ke(*NONE, "--out", "run")[0] == 0
    before = (tmp_path / "run/records.jsonl").read_bytes()
    saved(tiny_model("llama", seed=2), tmp_path / "model")
    status, _out, err = ke(*NONE, "--out", "run")
    assert status == 2
    assert "run holds another run: model digest" in err
    assert (tmp_path / "run/records.jsonl").read_bytes() == before


def test_weights_that_change_during_a_run_give_no_wrong_number(ke, tmp_path):
    saved(tiny_model("llama", seed=1), tmp_path / "model")
    assert ke(*NONE, "--out", "calm")[0] == 0
    other = load_file(saved(tiny_model("llama", seed=2), tmp_path / "other") / "model.safetensors")
    save_file(other, tmp_path / "other.safetensors", metadata={"format": "pt"})
    (tmp_path / "cache").rename(tmp_path / "old")  # so that every answer is generated again
    status, _out, err = ke(*NONE, "--out", "under", code=SWAPPED)
    if status == 0:  # the weights were in memory, so changes of the file have no effect
        calm, under = ((tmp_path / name / "scores.json").read_bytes() for name in ("calm", "under"))
        assert calm == under
    else:  # the file was mapped: the run ends with the reason
        assert "error: " in err
        assert not (tmp_path / "under/scores.json").exists()


def test_a_folder_that_cannot_be_created_gives_a_one_line_error(ke, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    status, _out, err = ke(*PARROT, "--out", "file/run")
    assert status == 2
    assert err.splitlines()[-2].startswith("error: ")
    assert "Traceback" not in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into a read-only folder")
def test_a_read_only_folder_gives_a_one_line_error(ke, tmp_path):
    (tmp_path / "mine").mkdir(mode=0o555)
    status, _out, err = ke(*PARROT, "--out", "mine/run")
    assert status == 2
    assert err.splitlines()[-2] == "error: cannot write mine/run/run.json: permission denied"


def test_a_folder_that_becomes_read_only_during_a_run_loses_nothing(ke, tmp_path):
    """Open files stay writable: everything is asked and judged, but the scores cannot be written."""
    assert ke(*PARROT, "--out", "calm")[0] == 0
    status, out, err = ke(*PARROT, "--out", "run", code=READ_ONLY)
    assert status == 2
    assert out == ""
    assert "read-only file system" in err.splitlines()[-2]
    assert "Traceback" not in err
    assert not (tmp_path / "run/scores.json").exists()
    assert ke(*PARROT, "--out", "run")[0] == 0
    assert answers(tmp_path / "run") == answers(tmp_path / "calm")


def test_a_run_resumes_after_ctrl_c_twice(ke, start, tmp_path):
    assert ke(*PARROT, "--out", "calm")[0] == 0
    process = start(*PARROT, "--out", "run", code=SLOW)
    wait_for(tmp_path / "asking")
    process.send_signal(signal.SIGINT)
    wait_for(tmp_path / "asking.left")
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.endswith(f"Interrupted. Progress is saved. To resume: ke {' '.join(PARROT)} --out run\n")
    kept = (tmp_path / "run/records.jsonl").read_bytes()
    assert kept.count(b'"kind":"batch"') == 2
    assert ke(*PARROT, "--out", "run")[0] == 0
    assert (tmp_path / "run/records.jsonl").read_bytes().startswith(kept)
    assert answers(tmp_path / "run") == answers(tmp_path / "calm")


def test_a_second_run_in_the_same_folder_is_refused(ke, start, tmp_path):
    assert ke(*PARROT, "--out", "calm")[0] == 0
    first = start(*PARROT, "--out", "run", code=SLOW)
    for moment, pruned in (("asking", "(kept: in use)"), ("scoring", "")):
        wait_for(tmp_path / moment)
        status, out, err = ke(*PARROT, "--out", "run")
        assert (status, out) == (2, "")
        assert err.splitlines()[-2] == "error: another process is writing to run"
        assert pruned in ke("runs", "prune", "run", "--yes")[1]
        assert (tmp_path / "run/records.jsonl").is_file()
        (tmp_path / f"{moment}.go").touch()
    out, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert "ke report run --full" in out
    assert answers(tmp_path / "run") == answers(tmp_path / "calm")
    assert (tmp_path / "run/scores.json").read_bytes() == (tmp_path / "calm/scores.json").read_bytes()
    events = [json.loads(line)["event"] for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert (events.count("start"), events.count("end"), events.count("failure")) == (1, 1, 0)
    assert "nothing to delete" in ke("runs", "prune", ".", "--yes")[2]
