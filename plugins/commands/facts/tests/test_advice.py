"""Expectations from recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_core.plugin import loads
from ke_plugin_facts.advice import RecordedEditor, expectation, recorded_editors

RUNS = Path(__file__).resolve().parents[4] / "docs/runs/demo"
ROOT = Path("runs")


def run(
    editor: str, efficacy: float, together: int | None = 1, seconds: float | None = 2.0, **measured: float
) -> RecordedEditor:
    return RecordedEditor(
        editor=editor, run="r", efficacy=efficacy, n=10, together=together, seconds=seconds, **measured
    )


def test_the_run_with_the_nearest_number_of_edits_counts() -> None:
    runs = (run("memit", 1.0, 1), run("memit", 0.8, 100, 0.5))
    efficacy, time, _memory = expectation(runs, "memit", 60, ROOT)
    assert efficacy.endswith("efficacy 0.80 (n 10, 100 at once).")
    assert time == "Expected time: 30 s for 60 edits (r)."


def test_what_was_not_measured_is_not_known() -> None:
    assert "not known" in expectation((), "memit", 3, ROOT)[0]
    _efficacy, time, memory = expectation((run("memit", 1.0, None, None),), "memit", 3, ROOT)
    assert time.startswith("Expected time: not known")
    assert memory.startswith("Expected additional memory: not known")


def test_memory_of_the_process_and_of_the_gpu_is_listed() -> None:
    memory = expectation((run("memit", 1.0, memory=1234.5),), "memit", 3, ROOT)[2]
    assert memory == "Expected additional memory: 1,234 MiB."
    memory = expectation((run("memit", 1.0, memory=20.0, device_memory=512.0),), "memit", 3, ROOT)[2]
    assert memory == "Expected additional memory: 20 MiB and 512 MiB on the GPU."


def test_a_better_editor_is_named() -> None:
    assert expectation((run("rome", 0.9), run("memit", 0.5)), "memit", 1, ROOT)[3].startswith("Best recorded: rome")
    assert len(expectation((run("rome", 0.9),), "rome", 1, ROOT)) == 3


@pytest.mark.skipif(not RUNS.is_dir(), reason="the recorded runs of the documentation are not here")
def test_recorded_runs_of_the_model_are_read() -> None:
    memit = next(path for path in RUNS.iterdir() if "memit" in path.name)
    digest = loads((memit / "run.json").read_text())["spec"]["model"]["digest"]
    found = {one.editor: one for one in recorded_editors(RUNS, digest)}
    assert found["memit"].efficacy > 0
    assert recorded_editors(RUNS, "another model") == ()
