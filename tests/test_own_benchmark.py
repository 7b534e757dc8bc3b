"""The commands of docs/own-benchmark.md work on the files of the page."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from ke_core.cli.app import App
from ke_core.cli.main import build, invoke
from ke_core.plugins.manager import discover

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "own-benchmark.md"
COMMANDS = re.findall(r"^    ke (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "docs" / "examples" / "company", tmp_path / "company")
    monkeypatch.chdir(tmp_path / "company")
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "company"


def ke(line: str) -> None:
    app = App(discover())
    status = invoke(build(app), shlex.split(line), app)
    assert not status or (status == 1 and line.startswith("audit")), line  # an audit with findings


def test_commands_without_a_model_work(company: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in COMMANDS:
        if "--model" not in line:
            ke(line)
    assert len(json.loads((company / "cases.json").read_text())) > 10
    scores = {name: json.loads((company / "runs" / name / "scores.json").read_text()) for name in ("oracle", "parrot")}
    assert set(scores) == {"oracle", "parrot"}
    assert "cases from facts" in capsys.readouterr().out


def test_the_page_shows_lines_of_the_files(company: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    files = [(company / name).read_text().splitlines() for name in ("facts.csv", "relations.toml")]
    shown = [line[4:] for line in page.splitlines() if line.startswith("    ") and not line.startswith("    ke ")]
    told = [line for line in shown if "," in line.split(" ")[0] or line.startswith(("label =", "cloze =", "["))]
    assert all(any(line in lines for lines in files) for line in told)


def test_files_are_overwritten_only_with_the_option(company: Path) -> None:
    line = next(one for one in COMMANDS if one.startswith("build "))
    ke(line)
    before = (company / "cases.json").read_bytes()
    with pytest.raises(Exception, match="already exists"):
        ke(line)
    ke(f"{line} --seed 3 --force")
    assert (company / "cases.json").read_bytes() != before
