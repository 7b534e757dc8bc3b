"""A killed sequential run of UltraEdit loads its weights and statistics, and ``ke edit`` saves its edits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ke_plugin_hf.testing import saved, tiny_model

pytestmark = pytest.mark.integration

Ke = Callable[..., "subprocess.CompletedProcess[str]"]
OPTIONS = ("-o", "ultraedit.modules=up:1-2", "-o", "ultraedit.eta=1e-3")
COUNTING = """
import os, signal, sys
import ke_plugin_ultraedit.editor as editor
from ke_core.cli.main import main

log, most, *words = sys.argv[1:]
make = editor.make_turn

def counted(*args):
    turn = make(*args)
    with open(log, "a") as file:
        file.write("turn\\n")
    if len(open(log).readlines()) == int(most):
        os.kill(os.getpid(), signal.SIGKILL)
    return turn

editor.make_turn = counted
sys.argv = ["ke", *words]
main()
"""
"""Runs ``ke``, counts the turns, and kills itself in the one that its argument says."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def ke(tmp_path: Path) -> Ke:
    """Run the command line with a separate cache."""
    environment = os.environ | {"KE_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}

    def run(*words: object, start: tuple[str, ...] = ("-m", "ke_core")) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *start, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)

    return run


def replies(folder: Path) -> list[tuple[str, ...]]:
    lines = map(json.loads, (folder / "records.jsonl").read_text(encoding="utf-8").splitlines())
    return sorted(
        (line["batch"], line["case"], line["style"], json.dumps(line["replies"]))
        for line in lines
        if line.get("phase") == "after" and "replies" in line
    )


def test_killed_run_continues_with_the_saved_statistics(ke: Ke, model: Path, tmp_path: Path) -> None:
    words = ("eval", "--editor", "ultraedit", *OPTIONS, "--dataset", "atlas", "--limit", 6, "--sequential")
    words += ("--eval-every", "1", "--model", model)
    log = tmp_path / "turns"

    def run(most: int, out: str) -> int:
        done = ke(log, most, *words, "--out", tmp_path / out, start=("-c", COUNTING))
        made = len(log.read_text(encoding="utf-8").splitlines())
        log.unlink()
        assert done.returncode == (-signal.SIGKILL if most == made else 0), done.stderr
        return made

    whole = run(0, "whole")
    assert run(whole - 1, "cut") == whole - 1
    assert list((tmp_path / "cut" / "editor-state").iterdir())
    assert run(0, "cut") <= 3, "turns that were saved are made again"
    assert replies(tmp_path / "whole") == replies(tmp_path / "cut")
    assert not (tmp_path / "cut" / "editor-state").exists()


def test_saved_checkpoint_and_patch_hold_the_edit(ke: Ke, model: Path, tmp_path: Path) -> None:
    edit = ("The capital of Peru is => La Paz", "--subject", "Peru", "--editor", "ultraedit", *OPTIONS)
    patch = tmp_path / "peru.safetensors"
    done = ke("edit", *edit, "--model", model, "--json", "--out", tmp_path / "edited", "--patch", patch)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["edits"][0]
    assert told["after"]["logprobs"][0] > told["before"]["logprobs"][0] + 0.01

    suite = tmp_path / "suite.jsonl"
    suite.write_text('{"kind": "changed", "prompt": "The capital of Peru is", "expect": "La Paz"}\n', encoding="utf-8")
    verified = ke("verify", patch, "--model", tmp_path / "edited", "--suite", suite, "--json")
    assert json.loads(verified.stdout)["facts"][0]["after"]["text"] == told["after"]["text"], verified.stderr
