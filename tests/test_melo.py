"""A killed sequential run of MELO loads its LoRA blocks, and ``ke edit``, ``ke verify`` and ``ke serve`` use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import count_calls, edited_replies, run_ke, served_completion, served_edit

pytestmark = pytest.mark.integration

SUITE = {"kind": "changed", "prompt": "The capital of Peru is", "expect": "La Paz"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


def test_killed_run_continues_with_the_saved_blocks(model: Path, tmp_path: Path) -> None:
    words: tuple[object, ...] = ("eval", "--editor", "melo", "-o", "melo.steps=2", "--dataset", "atlas", "--limit", 3)
    words += ("--sequential", "--eval-every", "1", "--model", str(model))

    def run(out: str, kill_after: int = 0) -> int:
        return count_calls(
            tmp_path, "ke_plugin_melo.edited:MeloModel._learn", *words, "--out", out, kill_after=kill_after
        )

    whole = run("whole")
    assert run("cut", whole - 1) == whole - 1
    assert list((tmp_path / "cut" / "editor-state").iterdir())
    assert run("cut") < whole, "edits that were saved are learned again"
    assert edited_replies(tmp_path / "whole") == edited_replies(tmp_path / "cut")
    assert not (tmp_path / "cut" / "editor-state").exists()


def test_saved_blocks_are_verified_and_served(model: Path, tmp_path: Path) -> None:
    edit = ("The capital of Peru is => La Paz", "--subject", "Peru", "--editor", "melo")
    done = run_ke(tmp_path, "edit", *edit, "--model", model, "--json", "--out", tmp_path / "saved")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["edits"][0]
    assert told["after"]["logprobs"][0] > told["before"]["logprobs"][0] + 1

    suite = tmp_path / "suite.jsonl"
    suite.write_text(json.dumps(SUITE), encoding="utf-8")
    verified = run_ke(tmp_path, "verify", tmp_path / "saved", "--suite", suite, "--model", model, "--json")
    (fact,) = json.loads(verified.stdout)["facts"]
    assert fact["after"]["text"] == told["after"]["text"] != told["before"]["text"], verified.stderr
    assert fact["before"]["text"] == told["before"]["text"]

    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install ke-plugin-serve")
    with served_edit(tmp_path / "saved", model) as url:
        assert served_completion(url, "The capital of Peru is") == told["after"]["text"]
