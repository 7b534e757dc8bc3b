"""The Python blocks of a page run one after another and import only public names.

A tiny model replaces the real one. Required runs, patches and editors are created first. The commands of the README run
too, and its picture shows the runs in ``docs/runs``. ``test_tutorials.py`` runs the tutorials.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from ke_core.cli.app import App
from ke_core.cli.main import build, invoke
from ke_core.plugins.manager import discover
from ke_plugin_hf.testing import saved, tiny_model
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import make_session

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EDIT = ("edit", "--edits", "facts.jsonl", "--editor", "memit", "--model", "./tiny", "-o", "memit.tokens=1000")
TINY = ("--model", "./tiny", "-o", "memit.tokens=1000", "-o", "memit.steps=3")
Names = dict[str, Any]


def python(page: Path) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    return [token.content for token in tokens if token.type == "fence" and token.info.strip() == "python"]


PAGES = {
    str(page.relative_to(ROOT)): page
    for page in sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md")))
    if "```python" in page.read_text(encoding="utf-8")
}


def nothing() -> Names:
    return {}


def runs() -> Names:
    shutil.copytree(DOCS / "runs" / "demo", "runs/demo")
    return {}


def a_run() -> Names:
    ke("eval", "--editor", "parrot", "--dataset", "atlas", "--limit", "2", "--out", "runs/parrot")
    return {}


def patches() -> Names:
    line = '{"prompt": "The mother tongue of {} is", "subject": "Danielle Darrieux", "target_new": "English"}\n'
    Path("facts.jsonl").write_text(line, encoding="utf-8")
    ke(*EDIT, "-o", "memit.steps=3", "--patch", "facts.safetensors")
    ke(*EDIT, "-o", "memit.steps=3", "--format", "peft", "--out", "./adapter")
    shutil.copytree("tiny", "base")
    return an_editor()


def an_editor() -> Names:
    from ke_plugin_ft import FtConfig
    from ke_plugin_ft.editor import Ft

    model = tiny_model("llama")
    names: Names = {
        "editor": Ft(FtConfig(epochs=2)),
        "model": model,
        "session": make_session(model, root=Path("session")),
    }
    return names | {"first": [MOVE_GATE], "second": [MOVE_TOWER], "edits": [MOVE_GATE], "questions": [question("Who?")]}


GIVEN: dict[str, Callable[[], Names]] = {
    "README.md": nothing,
    "docs/coming-from-easyedit.md": nothing,
    "docs/command-line.md": nothing,
    "docs/digests.md": nothing,
    "docs/editing.md": patches,
    "docs/adaptors.md": nothing,
    "docs/models.md": nothing,
    "docs/plugins.md": nothing,
    "docs/python-api.md": nothing,
    "docs/reports.md": runs,
    "docs/reproducing.md": nothing,
    "docs/run-folder.md": a_run,
    "docs/update-wrappers.md": nothing,
    "docs/weight-editors.md": an_editor,
}


def ke(*words: str) -> None:
    app = App(discover())
    assert not invoke(build(app), list(words), app)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft requires it
@pytest.mark.parametrize("page", [page for page in PAGES if "tutorials" not in page])
def test_python_blocks_of_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    saved(tiny_model("llama"), tmp_path / "tiny")
    names = GIVEN[page]()
    for code in python(PAGES[page]):
        exec(compile(code.replace("smollm2-135m", "./tiny"), page, "exec"), names)
    if page == "docs/reports.md":
        assert "<html" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_import_only_public_names(page: str) -> None:
    rows = [line.split("|")[1:3] for line in (DOCS / "compatibility.md").read_text(encoding="utf-8").splitlines()
            if line.startswith("| `ke_core")]  # fmt: skip
    public = {module: said for names, said in rows for module in re.findall(r"`(ke_core[\w.]*)`", names)}
    for node in (node for code in python(PAGES[page]) for node in ast.walk(ast.parse(code))):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("ke_core"):
            continue
        for alias in node.names:
            module = next((one for one in public if one in (f"{node.module}.{alias.name}", node.module)), None)
            if module is None:
                assert str(node.module).startswith("ke_testing."), f"{node.module} is not public"
            elif "for programs" in public[module] and node.module == module and "__all__" not in public[module]:
                assert f"`{alias.name}`" in public[module] or module.endswith(".records"), f"{module}.{alias.name}"


def test_the_commands_of_the_readme_run_with_a_tiny_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    saved(tiny_model("llama"), tmp_path / "tiny")
    quick = {"eval": TINY, "edit": TINY, "new": ()}
    tokens = MarkdownIt("commonmark").parse((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [line for token in tokens if token.type == "fence" for line in token.content.splitlines()]
    commands = [shlex.split(line.replace("--limit 20", "--limit 1"))[1:] for line in lines if line.startswith("ke ")]
    for words in commands:
        ke(*words, *quick[words[0]])
    assert {words[0] for words in commands} == quick.keys()
    assert Path("peru.safetensors").is_file()
    assert Path("ke-plugin-my-method/pyproject.toml").is_file()


def test_the_readme_picture_shows_the_recorded_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(DOCS / "runs" / "demo", "runs")
    order = ("memit", "input-aug", "parrot", "oracle")  # as in the demo
    ke("report", *(str(path) for editor in order for path in Path("runs").glob(f"{editor}-*")))
    picture = re.sub(
        r"<style>.*?</style>|<[^>]*>", " ", (DOCS / "images/demo.svg").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    shown = unescape(picture).split()
    printed = capsys.readouterr().out.split("Next:")[0].split()
    assert any(shown[start : start + len(printed)] == printed for start in range(len(shown)))
