"""torchrun starts two processes on one run: the same texts, verdicts and scores as one process, on gloo and CPUs."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import run_ke

pytestmark = pytest.mark.integration

FRAGILE = '''
"""``ke`` with an additional editor that kills the second process of a run if the file `die` exists."""
import os
import sys
from pathlib import Path

from attrs import evolve

from ke_core.cli.main import main
from ke_core.plugin import hookimpl
from ke_core.app import read_catalog
from ke_core.plugins.manager import discover

plugins = discover()
parrot = read_catalog(plugins).spec("editor", "parrot")


def build(config):
    editor = parrot.build(config)
    whole = type(editor).edit

    def edit(self, session, edits):
        if os.environ.get("RANK") == "1" and Path("die").exists() and len(made) == 2:
            os._exit(9)
        made.append(1)
        return whole(self, session, edits)

    made = []
    return type("Fragile", (type(editor),), {"edit": edit})(**({"config": config} if hasattr(editor, "config") else {}))


class More:
    @hookimpl
    def ke_editors(self):
        return [evolve(parrot, name="fragile", build=build)]


plugins.register(More(), "more")
sys.exit(main(sys.argv[1:], plugins=plugins))
'''

FLAKY = '''
"""``ke`` with slow judging and an additional editor whose first reply in the second process is a failure."""
import os
import sys
import time
from contextlib import contextmanager

from attrs import evolve

import ke_core.runner.evaluate as evaluation
from ke_core.cli.main import main
from ke_core.plugin import Failure, hookimpl
from ke_core.app import read_catalog
from ke_core.plugins.manager import discover

plugins = discover()
parrot = read_catalog(plugins).spec("editor", "parrot")
judge_run = evaluation.judge_run


class Flaky:
    details = {}

    def __init__(self, whole):
        self.whole, self.failed = whole, False

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        with self.whole.edit(session, edits) as self.edited:
            yield self

    def answer(self, asks):
        replies = list(self.edited.answer(asks))
        if os.environ.get("RANK") == "1" and not self.failed:
            replies[0], self.failed = Failure(error="Unlucky", message="once"), True
        return replies


class More:
    @hookimpl
    def ke_editors(self):
        return [evolve(parrot, name="flaky", build=lambda config: Flaky(parrot.build(config)))]


def slowly(*given, **how):
    time.sleep(3)
    return judge_run(*given, **how)


evaluation.judge_run = slowly
plugins.register(More(), "more")
sys.exit(main(sys.argv[1:], plugins=plugins))
'''


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def together(folder, *arguments, processes=2, script=("-m", "ke_core")):
    """Run ``ke`` in several processes. Return exit status, standard output and standard error."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    launch += ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    return ke(folder, *arguments, launch=[*launch, *script])


def ke(folder, *arguments, launch=()):
    if not launch:
        done = run_ke(folder, *arguments)
        return done.returncode, done.stdout, done.stderr
    environment = os.environ | {"OMP_NUM_THREADS": "1", "KE_CACHE_DIR": str(folder / "cache"), "COLUMNS": "100"}
    done = subprocess.run(
        [*launch, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


def records(folder):
    """Return the records without times and memory."""
    timed = ("seconds", "memory", "first", "passes")
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in timed} for line in lines]


def read_run(folder):
    """Return what identifies a run."""
    found = json.loads((folder / "run.json").read_text())
    return found["id"], found["spec"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tiny_model("llama"), tmp_path_factory.mktemp("model"))


def test_two_processes_give_the_records_of_one(tmp_path, model):
    asked = (
        "eval",
        "--editor",
        "ft",
        "--dataset",
        "atlas",
        "--limit",
        "6",
        "--model",
        str(model),
        "-o",
        "ft.epochs=2",
        *("--batch", "3", "--sequential", "--eval-every", "1"),
    )
    assert ke(tmp_path, *asked, "--out", "one")[0] == 0
    status, out, err = together(tmp_path, *asked, "--out", "two", "--processes", "2")
    assert status == 0, err
    assert out.count("ke report two --full") == 1  # only one process prints
    one, two = records(tmp_path / "one"), records(tmp_path / "two")
    assert [_words(line) for line in two] == [_words(line) for line in one]
    assert _numbers(two) == pytest.approx(_numbers(one), abs=1e-5)
    assert not list((tmp_path / "two").glob("records.part*"))


@pytest.mark.parametrize("editor", [("ice",), ("deepedit", "-o", "deepedit.max_calls=8")])  # the latter has turns
def test_a_model_split_over_two_processes_gives_the_run_and_the_answers_of_one(tmp_path, model, editor):
    asked = ("eval", "--editor", *editor, "--dataset", "atlas", "--limit", "1", "--model", str(model))
    assert ke(tmp_path, *asked, "--out", "one")[0] == 0
    status, out, err = together(tmp_path, *asked, "--tp", "auto", "--out", "two")
    assert status == 0, err
    assert out.count("ke report two --full") == 1
    assert read_run(tmp_path / "two") == read_run(tmp_path / "one")  # the digest of the model too
    done, expected = ([_words(line) for line in records(tmp_path / name)] for name in ("two", "one"))
    assert sorted(map(json.dumps, done)) == sorted(map(json.dumps, expected))
    assert (tmp_path / "two/scores.json").read_bytes() == (tmp_path / "one/scores.json").read_bytes()


def test_a_dead_process_fails_the_run_and_any_number_of_processes_resumes_it(tmp_path):
    (tmp_path / "ke.py").write_text(FRAGILE)
    (tmp_path / "die").touch()
    asked = ("eval", "--editor", "fragile", "--dataset", "atlas", "--limit", "9", "--out", "run")
    status, out, err = together(tmp_path, *asked, script=("ke.py",))
    assert status != 0
    assert "ke report run" not in out
    assert re.search(r"error: (another of the 2 processes of|process 0 was terminated: another process of)", err)
    kept = sum(len(part.read_bytes().splitlines()) for part in (tmp_path / "run").glob("records.part*"))
    assert kept > 0
    (tmp_path / "die").unlink()
    status, _out, err = together(tmp_path, *asked, processes=3, script=("ke.py",))
    assert status == 0, err
    whole = ke(tmp_path, *asked[:-1], "whole", launch=(sys.executable, "ke.py"))
    assert whole[0] == 0, whole[2]
    done, expected = records(tmp_path / "run"), records(tmp_path / "whole")
    assert sorted(map(json.dumps, done)) == sorted(map(json.dumps, expected))
    assert (tmp_path / "run/scores.json").read_bytes() == (tmp_path / "whole/scores.json").read_bytes()


def test_a_failed_reply_in_another_process_gives_exit_status_1(tmp_path):
    (tmp_path / "ke.py").write_text(FLAKY)
    asked = ("eval", "--editor", "flaky", "--dataset", "atlas", "--limit", "4", "--out", "run")
    status, out, err = together(tmp_path, *asked, script=("ke.py",))
    assert status == 1, err
    assert "1 failed reply, counted as wrong" in out
    assert "1 x Unlucky: once" in ke(tmp_path, "report", "run", "--full", launch=(sys.executable, "ke.py"))[1]
    assert "was terminated" not in err
    assert (tmp_path / "run/scores.json").exists()
    ends = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines() if '"end"' in line]
    assert [end["ended"] for end in ends] == ["done", "done"]


def test_a_launcher_that_started_only_one_process_is_detected(tmp_path):
    status, _out, err = ke(tmp_path, "eval", "--editor", "parrot", "--dataset", "atlas", "--processes", "2")
    assert status == 2
    assert "error: --processes 2, and 1 were started" in err


def _words(value):
    """Return ``value`` without the parts that depend on time: fractions, and whether an answer was cached."""
    if isinstance(value, dict):
        return {name: _words(part) for name, part in value.items() if name != "cached"}
    if isinstance(value, list):
        return [_words(part) for part in value]
    return "a number" if isinstance(value, float) else value


def _numbers(value):
    if isinstance(value, dict):
        return [number for name in sorted(value) for number in _numbers(value[name])]
    if isinstance(value, list):
        return [number for part in value for number in _numbers(part)]
    return [value] if isinstance(value, float) else []
