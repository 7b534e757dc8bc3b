"""Run the tutorials as written: write their files, change their code, run their commands, and compare their output.

Commands that need a real model are not run: the tutorial about patches uses a tiny model, the one that compares editors
uses the recorded runs, and ``test_facts_tutorial.py`` runs the one about a file of facts. Installers and ``ke plugins
check`` are not run either; their contracts have other tests.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field
from markdown_it import MarkdownIt

from ke_core.cli.app import App
from ke_core.cli.main import build, invoke
from ke_core.plugins.manager import discover

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
KEPT = TUTORIALS.parent / "runs" / "evaluate"  # the result of the command of evaluate.md with --out runs/first
SKIPPED = ("pip ", "tox", "python -m build", "twine ", "ke plugins check ", "ke plugins install ")
BOUNDS = "ke verify "  # exit status 1: a model with random weights fails the checks of the page


@define
class Typist:
    """Follows a page as a reader does."""

    page: Path
    patch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    model: str = ""
    printed: str = ""
    ran: list[str] = field(factory=list)

    def go(self) -> None:
        """Yield every block of the page with the paragraph before it."""
        for before, language, code in self._blocks():
            paths = re.findall(r"`([\w./-]+\.(?:py|jsonl?))`", before)
            if language == "sh":
                self.printed = ""
                for line in code.splitlines():
                    self._type(line)
            elif language == "text":
                self._shown(before, code)
            elif before.startswith("Import"):
                self._import(Path(paths[-1]), code)
            elif "replace" in before:
                self._replace(Path(paths[-1]), re.findall(r"`([\w.]+)`", before)[-1], code)
            elif paths:
                Path(paths[-1]).write_text(code, encoding="utf-8")

    def _blocks(self) -> Iterator[tuple[str, str, str]]:
        before = ""
        for token in MarkdownIt("commonmark").parse(self.page.read_text(encoding="utf-8")):
            if token.type == "inline":
                before = token.content.replace("\n", " ")
            elif token.type == "fence":
                yield before, token.info, token.content

    def _type(self, line: str) -> None:
        if self.model:
            line = line.replace("smollm2-135m", self.model)
            line += " -o memit.tokens=1000 -o memit.steps=3" if line.startswith("ke edit ") else ""
        if line.endswith("smollm2-135m --out runs/first"):
            shutil.copytree(KEPT, "runs/first")
        if line.startswith(SKIPPED) or "smollm2-135m" in line or "my-model" in line:
            return
        self.ran.append(line)
        if line.startswith("cd "):
            self.patch.chdir(line.removeprefix("cd "))
            self._install()
        elif line == "pytest":
            self._pytest()
        else:
            self._ke(line)

    def _ke(self, line: str) -> None:
        words = [found for word in shlex.split(line)[1:] for found in _found(word)]
        forget_plugins()  # each command is a new process, which imports the plugin as it is now
        app = App(discover())
        self.capsys.readouterr()
        status = invoke(build(app), words, app)
        self.printed += self.capsys.readouterr().out
        assert not status or line.startswith(BOUNDS), (line, self.printed)

    def _install(self) -> None:
        """Install a folder as ``pip install -e .`` does: modules and metadata."""
        distribution = Path.cwd().name
        about = Path("src") / f"{distribution.replace('-', '_')}-0.1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {distribution}\nVersion: 0.1.0\n")
        (about / "entry_points.txt").write_text(f"[ke]\n{distribution} = {distribution.replace('-', '_')}\n")
        self.patch.syspath_prepend(Path("src").resolve())

    def _pytest(self) -> None:
        own = [str(path) for path in sorted(Path("tests").glob("test_*.py")) if path.name != "test_contract.py"]
        self.module("pytest", "-q", "-p", "no:cacheprovider", *own)

    def module(self, *words: str) -> None:
        """Run a module of Python in the plugin's folder. Fail with its output if it fails."""
        environment = os.environ | {"PYTHONPATH": str(Path("src").resolve()), "OMP_NUM_THREADS": "1"}
        line = [sys.executable, "-m", *words]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]

    def _replace(self, path: Path, title: str, code: str) -> None:
        """Replace a class, a function or a method with ``code``."""
        text = path.read_text(encoding="utf-8")
        scope: list[ast.stmt] = ast.parse(text).body
        for part in title.split("."):
            node = next(one for one in scope if getattr(one, "name", "") == part)
            scope = getattr(node, "body", [])
        start = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        lines = text.splitlines()
        lines[start - 1 : node.end_lineno] = textwrap.indent(code.rstrip(), " " * node.col_offset).splitlines()
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _import(self, path: Path, code: str) -> None:
        """Replace the import from the same module, or write a new import below the last one."""
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(code).body:
            assert isinstance(node, ast.ImportFrom)
            found = [one for one in ast.parse(text).body if isinstance(one, ast.Import | ast.ImportFrom)]
            same = [one for one in found if isinstance(one, ast.ImportFrom) and one.module == node.module]
            old = ast.get_source_segment(text, (same or found)[-1]) or ""
            new = ast.get_source_segment(code, node) or ""
            package = (node.module or "").partition(".")[0]
            between = "\n" if old.startswith(f"from {package}") else "\n\n"
            text = text.replace(old, new if same else old + between + new)
        path.write_text(text, encoding="utf-8")

    def _shown(self, before: str, code: str) -> None:
        """Check that the shown text was printed by the commands above it or is in a file that they wrote."""
        found = self.printed + "".join(path.read_text(encoding="utf-8") for path in Path("src").rglob("*.py"))
        found = " ".join(found.split())
        for line in code.splitlines():
            assert " ".join(line.split()) in found, line


pytestmark = pytest.mark.docs


def _found(word: str) -> list[str]:
    """Expand a word with a star as a shell does."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]


def forget_plugins() -> None:
    for module in [one for one in sys.modules if one.startswith("ke_plugin_my_")]:
        del sys.modules[module]
    importlib.invalidate_caches()


@pytest.fixture
def typist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Typist]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    yield Typist(page=TUTORIALS, patch=monkeypatch, capsys=capsys)
    forget_plugins()


@pytest.mark.parametrize("name", sorted({path.stem for path in TUTORIALS.glob("*.md")} - {"edit", "facts-as-code"}))
def test_tutorials_work_as_written(name: str, typist: Typist) -> None:
    typist.page = TUTORIALS / f"{name}.md"
    if name == "publish":
        shutil.copytree(KEPT, "runs/first")  # its reader has followed the others
    typist.go()
    assert len([line for line in typist.ran if line.startswith(("ke ", "pytest"))]) >= 3
    if Path("pyproject.toml").exists():
        typist.module("ruff", "format", "--check", ".")
        typist.module("ruff", "check", ".")
    if name == "weight-editor":
        typist.module("pytest", "-q", "-p", "no:cacheprovider", "tests/test_contract.py", "-k", "default_dtype")
    if name == "dataset":
        typist.module("mypy", "--cache-dir", "../types")


def test_the_patch_tutorial_works_with_a_tiny_model(typist: Typist, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from ke_plugin_hf.testing import saved, tiny_model

    saved(tiny_model("llama"), tmp_path / "tiny")
    typist.page, typist.model = TUTORIALS / "edit.md", "./tiny"
    typist.go()
    given, edited, back = (load_file(tmp_path / folder / "model.safetensors") for folder in ("tiny", "edited", "base"))
    assert [name for name in given if not given[name].equal(edited[name])]
    assert all(given[name].equal(back[name]) for name in given)
    assert len(typist.ran) == 6
