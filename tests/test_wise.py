"""A killed sequential run of WISE loads its side memories, and ``ke edit``, ``ke verify`` and ``ke serve`` use them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from ke_plugin_hf.testing import saved, tiny_model

pytestmark = pytest.mark.integration

Ke = Callable[..., "subprocess.CompletedProcess[str]"]
KE = (sys.executable, "-m", "ke_core")
VALUES = {"module": "down:2", "steps": 15, "lr": 2, "alpha": 1, "beta": 4, "gamma": 2, "contexts": 0}
SHARDS = {"steps": 2, "save_freq": 2, "merge_freq": 4}


def options(values: dict[str, object]) -> tuple[str, ...]:
    return tuple(word for name, value in values.items() for word in ("-o", f"wise.{name}={value}"))


SUITE = {"kind": "changed", "prompt": "The capital of Peru is", "expect": "La Paz"}
COUNTING = """
import os, signal, sys
import ke_plugin_wise.edited as edited
from ke_core.cli.main import main

log, most, *words = sys.argv[1:]
learn = edited.learn

def counted(*args):
    found = learn(*args)
    with open(log, "a") as file:
        file.write("edit\\n")
    if len(open(log).readlines()) == int(most):
        os.kill(os.getpid(), signal.SIGKILL)
    return found

edited.learn = counted
sys.argv = ["ke", *words]
main()
"""
"""Runs ``ke``, counts the learned edits, and kills itself after as many as its argument."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def ke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ke:
    """Run the command line with a separate cache."""
    for name, value in {"KE_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)

    def run(*words: object, start: tuple[str, ...] = ("-m", "ke_core")) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *start, *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


def replies(folder: Path) -> list[tuple[str, ...]]:
    lines = map(json.loads, (folder / "records.jsonl").read_text(encoding="utf-8").splitlines())
    return sorted(
        (line["batch"], line["case"], line["style"], json.dumps(line["replies"]))
        for line in lines
        if line.get("phase") == "after" and "replies" in line
    )


@contextmanager
def served(folder: Path, model: Path) -> Iterator[str]:
    """Yield the address of a server that answers with the saved edit."""
    server = subprocess.Popen(
        [*KE, "serve", "--adaptor", str(folder), "--model", str(model), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        yield next(line.split(" at ")[1].split("/v1")[0] for line in server.stderr if " at http" in line)
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def test_killed_run_continues_with_the_saved_side_memories(ke: Ke, model: Path, tmp_path: Path) -> None:
    """Shards of two edits, so that the run is killed in the middle of a shard and after a merge."""
    words = ("eval", "--editor", "wise", *options(VALUES | SHARDS), "--dataset", "atlas", "--limit", 3)
    words += ("--sequential", "--eval-every", "1", "--model", str(model))
    log = tmp_path / "learned"

    def run(most: int, out: str) -> int:
        done = ke(log, most, *words, "--out", tmp_path / out, start=("-c", COUNTING))
        learned = len(log.read_text(encoding="utf-8").splitlines())
        log.unlink()
        assert done.returncode == (-signal.SIGKILL if most == learned else 0), done.stderr
        return learned

    whole = run(0, "whole")
    assert run(whole - 1, "cut") == whole - 1
    assert list((tmp_path / "cut" / "editor-state").iterdir())
    assert run(0, "cut") < whole, "edits that were saved are learned again"
    assert replies(tmp_path / "whole") == replies(tmp_path / "cut")
    assert not (tmp_path / "cut" / "editor-state").exists()


def test_saved_side_memories_are_verified_and_served(ke: Ke, model: Path, tmp_path: Path) -> None:
    edit = ("The capital of Peru is => La Paz", "--subject", "Peru", "--editor", "wise", *options(VALUES))
    done = ke("edit", *edit, "--model", model, "--json", "--out", tmp_path / "saved")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["edits"][0]
    assert told["after"]["logprobs"][0] > told["before"]["logprobs"][0] + 1

    suite = tmp_path / "suite.jsonl"
    suite.write_text(json.dumps(SUITE), encoding="utf-8")
    verified = ke("verify", tmp_path / "saved", "--suite", suite, "--model", model, "--json")
    (fact,) = json.loads(verified.stdout)["facts"]
    assert fact["after"]["text"] == told["after"]["text"] != told["before"]["text"], verified.stderr
    assert fact["before"]["text"] == told["before"]["text"]

    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install ke-plugin-serve")
    with served(tmp_path / "saved", model) as url:
        body = {"model": "tiny", "prompt": "The capital of Peru is", "max_tokens": 12, "stop": ["\n"]}
        request = Request(f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with build_opener(ProxyHandler({})).open(request, timeout=60) as reply:
            assert json.loads(reply.read())["choices"][0]["text"].strip() == told["after"]["text"]
