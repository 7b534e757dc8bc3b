"""docs/judges.md and docs/metrics.md: their commands run unchanged, and they cover every judge and metric."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from attrs import fields

from ke_core.app import installed_catalog
from ke_core.cli.app import App
from ke_core.cli.main import build, invoke
from ke_core.plugins.catalog import Catalog
from ke_core.plugins.manager import discover
from ke_plugin_analysis.checking import FEWEST

pytestmark = pytest.mark.docs

DOCS = Path(__file__).parents[1] / "docs"
JUDGES, METRICS = ((DOCS / name).read_text(encoding="utf-8") for name in ("judges.md", "metrics.md"))


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return installed_catalog()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(DOCS / "examples" / "judges", tmp_path / "judges")
    monkeypatch.chdir(tmp_path / "judges")
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "judges"


def commands(page: str) -> list[str]:
    return re.findall(r"^    ke (.+)$", page, re.MULTILINE)


def ke(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    capsys.readouterr()
    app = App(discover())
    assert not invoke(build(app), shlex.split(line), app), line
    written = capsys.readouterr()
    return " ".join(written.out.split()), written.err


def section(page: str, name: str) -> str:
    found = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert found, f"there is no section {name}"
    return found


def test_the_commands_of_the_judges_page_work(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {line: ke(line, capsys) for line in commands(JUDGES)}
    written = [err.splitlines()[0] for line, (_out, err) in said.items() if line.startswith("judge ")]
    assert written == ["20 lines of judgments written", "every answer was judged already"]
    records = (folder / "runs" / "parrot" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    options = [json.loads(line)["judge"]["options"]["match"] for line in records if '"kind":"judged"' in line]
    assert [options.index("contains"), options[-1]] == [len(options) // 2, "exact"]
    assert options[-2] == "contains"


def test_the_documented_kappas_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = re.findall(
        r"^\| .*alias.* with its defaults \| (.+) \| (.+) \|$|^\| with .* \| (.+) \| (.+) \|$", JUDGES, re.MULTILINE
    )
    lines = [line for line in commands(JUDGES) if line.startswith("judges check")]
    assert len(rows) == len(lines) == 2
    for line, row in zip(lines, rows, strict=True):
        agreed, kappa = filter(None, row)
        out, err = ke(line, capsys)
        printed = f"verdict 59 {agreed} {kappa}".replace("(", "").replace(")", "")
        assert printed in out, (printed, out)
        assert ("warning:" in err) is (float(kappa.split()[0]) < 0.6)


def test_the_documented_items_and_line_are_accepted(folder: Path) -> None:
    items = [json.loads(line) for line in (folder / "labeled.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(items) == 59 >= FEWEST
    shown = json.loads(re.findall(r"```json\n(.*?)```", JUDGES, re.DOTALL)[0])
    assert shown["answer"] in {item["answer"] for item in items}


def test_every_judge_has_a_section_with_its_options(catalog: Catalog) -> None:
    for name in catalog.names("judge"):
        own = section(JUDGES, name)
        assert f"[`{name}`](#{name})" in JUDGES
        for option in fields(catalog.spec("judge", name).config):
            assert f"| `{option.name}` |" in own, f"{name}.{option.name}"


def test_every_metric_has_a_section_with_its_aspects(catalog: Catalog) -> None:
    for name in catalog.names("metric"):
        own = section(METRICS, name)
        spec = catalog.spec("metric", name)
        shown = [*spec.columns, *(aspect for table in spec.tables.values() for aspect in table)]  # type: ignore[attr-defined]
        for aspect in shown:
            assert f"`{aspect}`" in own, f"{name}: {aspect}"
        assert "Excluded" in own or "xcluded from" in own, name
        questions = METRICS.partition("\n## multi-hop\n")[0]
        assert f"`{name}`" in questions, f"{name} stands in no row of the first table"


def test_the_commands_about_metrics_work(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in commands(METRICS):
        ke(line, capsys)
    metrics = json.loads((folder / "runs" / "parrot" / "scores.json").read_text(encoding="utf-8"))["metrics"]
    assert [metric["component"]["name"] for metric in metrics] == ["multi-hop", "parrot-rate", "error-types"]


def test_both_pages_are_linked_from_the_first_one() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert "(docs/judges.md)" in readme
    assert "(docs/metrics.md)" in readme
