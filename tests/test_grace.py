"""``ke edit`` saves the codebook of GRACE, and ``ke verify`` loads it and gets the same answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import run_ke

pytestmark = pytest.mark.integration

OPTIONS = ("-o", "grace.steps=20", "-o", "grace.eps=1e-3")
SUITE = [
    {"kind": "changed", "prompt": "The capital of Peru is", "expect": "La Paz"},
    {"kind": "kept", "prompt": "The capital of France is"},
]


def test_saved_codebook_gives_the_same_answers_and_changes_no_other(tmp_path: Path) -> None:
    model = saved(tiny_model(), tmp_path / "tiny")

    def ke(*words: object) -> Any:
        done = run_ke(tmp_path, *words, "--model", model, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    edit = ("The capital of Peru is => La Paz", "--subject", "Peru", "--editor", "grace", *OPTIONS)
    told = ke("edit", *edit, "--out", tmp_path / "saved")["edits"][0]
    assert told["after"]["logprobs"][0] > told["before"]["logprobs"][0] + 1
    assert sorted(file.name for file in (tmp_path / "saved").iterdir()) == ["ke_edit.json", "ke_state.safetensors"]

    suite = tmp_path / "suite.jsonl"
    suite.write_text("".join(f"{json.dumps(line)}\n" for line in SUITE), encoding="utf-8")
    verified = ke("verify", tmp_path / "saved", "--suite", suite, "--max", "drift=0")
    changed, kept = verified["facts"]
    assert changed["after"]["text"] == told["after"]["text"]
    assert changed["before"]["text"] == told["before"]["text"]
    assert kept["after"]["text"] == kept["before"]["text"]
