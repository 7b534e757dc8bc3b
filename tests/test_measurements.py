"""The chart of the lifelong curve, and a miniature of the GPU benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from line_chart import HEIGHT, TOP, Panel, draw
from pictures import lifelong

ROOT = Path(__file__).resolve().parents[1]


def test_a_value_is_drawn_at_its_place_on_a_linear_and_on_a_logarithmic_axis():
    linear = Panel(title="", lines={}, ticks=(0, 50, 100))
    logarithmic = Panel(title="", lines={}, ticks=(10, 1000), logarithmic=True)
    assert [linear.height(value) for value in (0, 25, 100)] == [TOP + HEIGHT, TOP + HEIGHT * 0.75, TOP]
    assert logarithmic.height(100) == pytest.approx(TOP + HEIGHT / 2)


def test_values_outside_of_the_axis_are_drawn_at_its_ends():
    panel = Panel(title="", lines={}, ticks=(10, 1000), logarithmic=True)
    assert [panel.height(value) for value in (1e15, 0.0)] == [TOP, TOP + HEIGHT]


def test_the_x_axis_is_logarithmic_and_names_are_escaped():
    panel = Panel(title="", lines={"a<b": [(1, 0), (10, 50), (100, 100)]}, ticks=(0, 100))
    svg = draw("title", (panel,), (1, 10, 100), "edits")
    assert 'points="44.0,206.0 164.0,116.0 284.0,26.0"' in svg
    assert "a&lt;b" in svg
    assert "a<b" not in svg


def test_the_picture_in_the_docs_is_that_of_the_results():
    results = json.loads((ROOT / "benchmarks/lifelong.json").read_text(encoding="utf-8"))
    assert lifelong(results) == (ROOT / "docs/images/lifelong.svg").read_text(encoding="utf-8")


@pytest.mark.integration
def test_the_gpu_benchmark_resumes_and_writes_its_page(tmp_path):
    out = tmp_path / "gpu.json"
    command = [
        sys.executable, str(ROOT / "benchmarks/gpu.py"), "--shape", "tiny", "--device", "cpu", "--dtype", "float32",
        "--minutes", "0", "--data-dir", str(tmp_path), "--out", str(out), "--parts",
    ]  # fmt: skip
    subprocess.run([*command, "covariance"], check=True)
    first = json.loads(out.read_text(encoding="utf-8"))["parts"]["covariance"]
    subprocess.run([*command, "covariance,edits"], check=True)
    parts = json.loads(out.read_text(encoding="utf-8"))["parts"]
    assert parts["covariance"] == first
    assert parts["edits"]["ours"] > 0
    assert "MEMIT, 16 edits in one batch" in out.with_suffix(".md").read_text(encoding="utf-8")
