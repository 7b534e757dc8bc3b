"""A killed sequential run of UltraEdit loads its weights and statistics, and ``ke edit`` saves its edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import check_killed_run, run_ke

pytestmark = pytest.mark.integration

OPTIONS = ("-o", "ultraedit.modules=up:1-2", "-o", "ultraedit.eta=1e-3")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


def test_killed_run_continues_with_the_saved_statistics(model: Path, tmp_path: Path) -> None:
    words = ("eval", "--editor", "ultraedit", *OPTIONS, "--dataset", "atlas", "--limit", 3, "--sequential")
    words += ("--eval-every", "1", "--model", model)
    check_killed_run(tmp_path, "ke_plugin_ultraedit.editor:make_turn", *words)


def test_saved_checkpoint_and_patch_hold_the_edit(model: Path, tmp_path: Path) -> None:
    edit = ("The capital of Peru is => La Paz", "--subject", "Peru", "--editor", "ultraedit", *OPTIONS)
    patch = tmp_path / "peru.safetensors"
    done = run_ke(tmp_path, "edit", *edit, "--model", model, "--json", "--out", tmp_path / "edited", "--patch", patch)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["edits"][0]
    assert told["after"]["logprobs"][0] > told["before"]["logprobs"][0] + 0.01

    suite = tmp_path / "suite.jsonl"
    suite.write_text('{"kind": "changed", "prompt": "The capital of Peru is", "expect": "La Paz"}\n', encoding="utf-8")
    verified = run_ke(tmp_path, "verify", patch, "--model", tmp_path / "edited", "--suite", suite, "--json")
    assert json.loads(verified.stdout)["facts"][0]["after"]["text"] == told["after"]["text"], verified.stderr
