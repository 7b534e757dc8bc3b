"""Datasets are exported to case files without loss, and a run on the file equals the run on the dataset."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks.files.cases import export, read_cases, read_header
from ke_benchmarks.soundness import problems
from ke_core.app import installed_catalog
from ke_core.cli.main import main
from ke_core.plugins.options import configure

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("options", [{}, {"view": "edits"}], ids=["cases", "edits"])
def test_atlas_cases_survive_a_case_file(options: dict[str, str], tmp_path: Path) -> None:
    survives("atlas", options, tmp_path)


@pytest.mark.integration
def test_mquake_cases_survive_a_case_file(ke_data_dir: Path, tmp_path: Path) -> None:
    if not (ke_data_dir / "mquake/MQuAKE-CF-3k.json").is_file():
        pytest.skip("no mquake/MQuAKE-CF-3k.json")
    survives("mquake-cf-3k", {"data_dir": str(ke_data_dir)}, tmp_path)


def survives(name: str, options: dict[str, str], tmp_path: Path) -> None:
    spec: Any = installed_catalog().spec("dataset", name)
    dataset = spec.build(configure(spec, options))
    cases = list(dataset.cases())
    export(dataset, spec, cases, tmp_path / "cases.jsonl")
    assert cases == list(read_cases(tmp_path / "cases.jsonl"))
    assert read_header(tmp_path / "cases.jsonl").cases == len(cases)
    assert [problem for problem in problems(cases) if problem.level == "error"] == []


def test_the_documented_example_is_valid_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    typed = re.search(r"cat > tower\.jsonl <<'END'\n(.*?)END\n", page, re.DOTALL)
    assert typed is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "tower.jsonl").write_text(typed[1], encoding="utf-8")
    assert main(("datasets", "validate", "tower.jsonl")) == 0
    assert capsys.readouterr().out == "tower.jsonl: 1 case, no problems\n"
    on_file = ("--dataset", "cases", "-o", "cases.file=tower.jsonl")
    assert main(("eval", "--editor", "oracle", *on_file, "--out", "run")) == 0
    assert main(("eval", "--editor", "parrot", *on_file, "--out", "run2")) == 0


@pytest.mark.integration
def test_a_run_on_a_file_is_judged_and_scored_again_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    assert main(("datasets", "export", "atlas", "--out", "mine.jsonl")) == 0
    on_file = ("--dataset", "cases", "-o", "cases.file=mine.jsonl")
    assert main(("eval", "--editor", "oracle", *on_file, "--limit", "8", "--out", "run")) == 0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert [one["component"]["name"] for one in scores["metrics"]] == ["multi-hop", "retrieval"]
    assert main(("judge", "run")) == 0
    (tmp_path / "away").mkdir()
    (tmp_path / "mine.jsonl").rename(tmp_path / "away" / "mine.jsonl")
    assert main(("score", "run")) == 2
    assert main(("score", "run", "--data-dir", "away")) == 0
    text = (tmp_path / "away" / "mine.jsonl").read_text(encoding="utf-8")
    (tmp_path / "away" / "mine.jsonl").write_text(text.replace("Zambia", "Sambia"), encoding="utf-8")
    capsys.readouterr()
    assert main(("score", "run", "--data-dir", "away")) == 2
    assert "cases is not what run was made with" in capsys.readouterr().err
