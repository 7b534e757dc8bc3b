"""The chart of the lifelong curve, and a miniature of the GPU benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import lifelong

from ke_plugin_facts.advising import chart, read_trials

ROOT = Path(__file__).resolve().parents[1]


def test_the_chart_of_ke_advise_in_the_docs_is_that_of_the_trials():
    trials = read_trials(ROOT / "benchmarks/advise.jsonl")
    assert chart(list(trials.values())) == (ROOT / "docs/images/advise.svg").read_text(encoding="utf-8")


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
