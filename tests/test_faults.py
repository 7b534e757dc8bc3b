"""What may happen to a machine while a run is under way: nothing recorded is lost, and no wrong number is printed."""

import os
import subprocess
import sys

import pytest
from safetensors.torch import load_file, save_file

from ke_core.testing.tiny import saved, tiny_model

CLOCK = '''
"""A clock that jumps: back by a day, ahead by a month, at every look."""
import random
import sys
import time

whole = time.time
time.time = lambda: whole() + random.choice([-86400.0, 0.0, 2592000.0])
from ke_core.cli.main import main
sys.exit(main())
'''
SWAPPED = '''
"""ke, and after so many edits somebody writes other weights into the model's file, in place."""
import sys
from pathlib import Path

import ke_core.run.loop as loop
from ke_core.cli.main import main

whole, seen = loop.Loop.ask_edited, []


def ask_edited(self, group):
    seen.append(group)
    if len(seen) == 3:
        with Path("model/model.safetensors").open("r+b") as file:
            file.write(Path("other.safetensors").read_bytes())
    whole(self, group)


loop.Loop.ask_edited = ask_edited
sys.exit(main())
'''
PARROT = ("eval", "--editor", "parrot", "--dataset", "atlas", "--limit", "6")
NONE = ("eval", "--editor", "none", "--dataset", "atlas", "--limit", "6", "--model", "./model")


@pytest.fixture
def ke(tmp_path):
    """``ke`` in a process of its own: exit status, standard output, standard error."""

    def run(*arguments, code="import sys; from ke_core.cli.main import main; sys.exit(main())"):
        environment = os.environ | {"OMP_NUM_THREADS": "1", "KE_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run


def test_a_clock_that_jumps_changes_no_number(ke, tmp_path):
    assert ke(*PARROT, "--out", "calm")[0] == 0
    status, _out, err = ke(*PARROT, "--out", "jumping", code=CLOCK)
    assert status == 0, err
    calm, jumping = ((tmp_path / name / "scores.json").read_bytes() for name in ("calm", "jumping"))
    assert calm == jumping
    assert b'"seconds":-' not in (tmp_path / "jumping/records.jsonl").read_bytes()


def test_weights_that_change_before_a_run_goes_on_are_another_run(ke, tmp_path):
    saved(tiny_model("llama", seed=1), tmp_path / "model")
    assert ke(*NONE, "--out", "run")[0] == 0
    before = (tmp_path / "run/records.jsonl").read_bytes()
    saved(tiny_model("llama", seed=2), tmp_path / "model")
    status, _out, err = ke(*NONE, "--out", "run")
    assert status == 2
    assert "run holds another run: its model.digest is" in err
    assert (tmp_path / "run/records.jsonl").read_bytes() == before


def test_weights_that_change_under_a_run_print_no_wrong_number(ke, tmp_path):
    saved(tiny_model("llama", seed=1), tmp_path / "model")
    assert ke(*NONE, "--out", "calm")[0] == 0
    other = load_file(saved(tiny_model("llama", seed=2), tmp_path / "other") / "model.safetensors")
    save_file(other, tmp_path / "other.safetensors", metadata={"format": "pt"})
    (tmp_path / "cache").rename(tmp_path / "old")  # so that every answer is given afresh
    status, _out, err = ke(*NONE, "--out", "under", code=SWAPPED)
    if status == 0:  # the weights were in memory: what happens to the file no longer matters
        calm, under = ((tmp_path / name / "scores.json").read_bytes() for name in ("calm", "under"))
        assert calm == under
    else:  # the file was mapped: the run ends, and says why
        assert "error: " in err
        assert not (tmp_path / "under/scores.json").exists()


def test_a_folder_that_nobody_can_write_to_is_one_line(ke, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    status, _out, err = ke(*PARROT, "--out", "file/run")
    assert status == 2
    assert err.splitlines()[-2].startswith("error: ")
    assert "Traceback" not in err
