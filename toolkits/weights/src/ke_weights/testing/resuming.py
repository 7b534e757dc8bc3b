"""``ke`` in a process: a run that is killed in the middle, and a saved edit that is verified and served."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from ke_core.app import main
from ke_core.plugin import loads
from ke_testing.process import run_forked

KE = ("-m", "ke_core")
SUITE = {"kind": "changed", "prompt": "The capital of Peru is", "expect": "La Paz"}


def run_ke(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run ``ke`` with ``words`` in ``folder``, with a separate cache."""
    return run_forked(_ke, [str(word) for word in words], cwd=folder, env=_environment(folder))


def count_calls(folder: Path, function: str, *words: object, kill_after: int = 0) -> int:
    """Run ``ke`` with ``words``, and return how often it called ``function`` (MODULE:NAME or MODULE:CLASS.NAME).

    It is killed after ``kill_after`` calls; 0: never.
    """
    log = folder / "calls"
    log.write_text("", encoding="utf-8")
    arguments = [str(word) for word in words]
    done = run_forked(_ke_counting, function, log, kill_after, arguments, cwd=folder, env=_environment(folder))
    calls = len(log.read_text(encoding="utf-8").splitlines())
    assert done.returncode == (-signal.SIGKILL if kill_after else 0), done.stderr
    return calls


def check_killed_run(folder: Path, function: str, *words: object) -> None:
    """Kill ``ke`` with ``words``, a sequential run, before the last call of ``function``, which makes an edit, and
    continue it. It uses the saved state of the editor, and gives the replies of a run that was not killed.
    """

    def run(out: str, kill_after: int = 0) -> int:
        return count_calls(folder, function, *words, "--out", out, kill_after=kill_after)

    whole = run("whole")
    assert run("cut", whole - 1) == whole - 1
    assert list((folder / "cut" / "editor-state").iterdir())
    assert run("cut") < whole, "edits that were saved are made again"
    assert edited_replies(folder / "whole") == edited_replies(folder / "cut")
    assert not (folder / "cut" / "editor-state").exists()


def check_saved_adaptor(folder: Path, model: Path, editor: str, *options: str) -> None:
    """Save an edit of an adaptor. ``ke verify`` and ``ke serve`` give the answers of ``ke edit``."""
    edit = ("The capital of Peru is => La Paz", "--subject", "Peru", "--editor", editor, *options)
    done = run_ke(folder, "edit", *edit, "--model", model, "--json", "--out", folder / "saved")
    assert done.returncode == 0, done.stderr
    told = loads(done.stdout)["edits"][0]
    assert told["after"]["logprobs"][0] > told["before"]["logprobs"][0] + 1

    suite = folder / "suite.jsonl"
    suite.write_text(json.dumps(SUITE), encoding="utf-8")
    verified = run_ke(folder, "verify", folder / "saved", "--suite", suite, "--model", model, "--json")
    (fact,) = loads(verified.stdout)["facts"]
    assert fact["after"]["text"] == told["after"]["text"] != told["before"]["text"], verified.stderr
    assert fact["before"]["text"] == told["before"]["text"]

    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install ke-plugin-serve")
    with served_edit(folder / "saved", model) as url:
        assert served_completion(url, SUITE["prompt"]) == told["after"]["text"]


def edited_replies(run: Path) -> list[tuple[str, ...]]:
    """Return the recorded replies of the edited model, sorted, without times and costs."""
    lines = map(loads, (run / "records.jsonl").read_text(encoding="utf-8").splitlines())
    return sorted(
        (line["batch"], line["case"], line["style"], json.dumps(line["replies"]))
        for line in lines
        if line.get("phase") == "after" and "replies" in line
    )


def served_edit(saved: Path, model: Path) -> AbstractContextManager[str]:
    """Return a context with the address of a server that answers with the adaptor in the folder ``saved``."""
    return served(saved.parent, "--adaptor", saved, "--model", model)


@contextmanager
def served(folder: Path, *words: object) -> Iterator[str]:
    """Yield the address of ``ke serve`` with ``words``, which runs in ``folder``."""
    server = subprocess.Popen(
        [sys.executable, *KE, "serve", *map(str, words), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=_environment(folder),
    )
    assert server.stderr is not None
    try:
        yield next(line.split(" at ")[1].split("/v1")[0] for line in server.stderr if " at http" in line)
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def served_completion(url: str, prompt: str, *, model: str = "tiny") -> str:
    """Return the server's first line after ``prompt``."""
    body = {"model": model, "prompt": prompt, "max_tokens": 12, "stop": ["\n"]}
    request = Request(f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310  local
    with build_opener(ProxyHandler({})).open(request, timeout=60) as reply:
        found: dict[str, Any] = loads(reply.read())
    return str(found["choices"][0]["text"]).strip()


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"KE_CACHE_DIR": str(folder / "cache"), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


def _ke(words: list[str]) -> None:
    sys.argv = ["ke", *words]
    sys.exit(main())


def _ke_counting(function: str, log: Path, kill_after: int, words: list[str]) -> None:
    """Run ``ke``, log the calls of a function (MODULE:NAME), and kill this process after ``kill_after`` of them."""
    module, _, path = function.partition(":")
    *outer, name = path.split(".")
    owner = reduce(getattr, outer, import_module(module))
    called = getattr(owner, name)

    def counted(*args: object, **kwargs: object) -> object:
        found = called(*args, **kwargs)
        with log.open("a", encoding="utf-8") as file:
            file.write("call\n")
        if len(log.read_text(encoding="utf-8").splitlines()) == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, counted)
    _ke(words)
