"""Networks of ``ke train`` in a sequential run that is killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ke_plugin_hf.testing import saved, tiny_model

pytestmark = pytest.mark.integration

COUNTING = """
import os, signal, sys
import ke_plugin_serac.editor as editor
from ke_core.cli.main import main

log, most, *words = sys.argv[1:]
answer = editor.SeracModel.answer

def counted(self, asks):
    with open(log, "a") as file:
        file.write("answers\\n")
    if len(open(log).readlines()) == int(most):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(self, asks)

editor.SeracModel.answer = counted
sys.argv = ["ke", *words]
main()
"""
"""Runs ``ke``, counts the calls of ``answer``, and kills itself in the one that its argument says."""
UNIT_VECTORS = [
    {"idx": place, "name": str(place), "path": "", "type": f"sentence_transformers.models.{kind}"}
    for place, kind in enumerate(("Transformer", "Pooling", "Normalize"))
]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options with a tiny counterfactual model, and a tiny sentence encoder."""
    small = saved(tiny_model(seed=1), tmp_path_factory.mktemp("small"))
    encoder = saved(tiny_model(seed=2), tmp_path_factory.mktemp("encoder"))
    (encoder / "modules.json").write_text(json.dumps(UNIT_VECTORS), encoding="utf-8")
    given = {"counterfactual": small, "encoder": encoder, "blocks": 1, "batch": 2, "scope_batch": 4, "lr": 1e-3}
    return tuple(word for name, value in given.items() for word in ("-o", f"serac.{name}={value}"))


def run(root: Path, *words: object, start: tuple[str, ...] = ("-m", "ke_core")) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KE_CACHE_DIR": str(root / "cache"), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *start, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environment)


def replies(folder: Path) -> list[tuple[str, ...]]:
    lines = map(json.loads, (folder / "records.jsonl").read_text(encoding="utf-8").splitlines())
    return sorted(
        (line["batch"], line["case"], line["style"], json.dumps(line["replies"]))
        for line in lines
        if line.get("phase") == "after" and "replies" in line
    )


def test_killed_sequential_run_has_the_replies_of_a_whole_run(options: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, "train", "serac", "--data", "atlas", *options, "--json", "--minutes", 0.02)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] > 0

    model = saved(tiny_model(), tmp_path / "tiny")
    words = ("eval", "--editor", "serac", *options, "--dataset", "atlas", "--limit", 3, "--sequential")
    words += ("--eval-every", "1", "--model", model)
    log = tmp_path / "answers"

    def evaluate(most: int, out: str) -> int:
        done = run(tmp_path, log, most, *words, "--out", tmp_path / out, start=("-c", COUNTING))
        made = len(log.read_text(encoding="utf-8").splitlines())
        log.unlink()
        assert done.returncode == (-signal.SIGKILL if most == made else 0), done.stderr
        return made

    whole = evaluate(0, "whole")
    assert whole > 2
    assert evaluate(whole - 1, "cut") == whole - 1
    assert evaluate(0, "cut") < whole
    assert replies(tmp_path / "whole") == replies(tmp_path / "cut")
    assert any('"retrieved": ["' in text for *_where, text in replies(tmp_path / "cut"))
