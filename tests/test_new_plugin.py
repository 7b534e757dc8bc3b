"""``ke plugins check`` reports mistakes in plugins from ``ke new``. scripts/templates.py tests the templates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MADE = {"memory": ("editor", "--kind", "memory"), "metric": ("metric",), "judge": ("judge",)}
pytestmark = pytest.mark.integration


def python(*words: str, at: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, *words], cwd=at, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def new(tmp_path: Path) -> Callable[[str], Path]:
    """Create the distribution made-TEMPLATE and install it into the folder ``site`` as pip does."""

    def make(what: str) -> Path:
        words = MADE[what]
        done = python("-m", "ke_core", "new", words[0], f"made-{what}", *words[1:], at=tmp_path)
        assert done.returncode == 0, done.stderr
        folder, site = tmp_path / f"ke-plugin-made-{what}", tmp_path / "site"
        info = site / f"ke_plugin_made_{what}-0.1.0.dist-info"
        info.mkdir(parents=True)
        about = f"Metadata-Version: 2.1\nName: {folder.name}\nVersion: 0.1.0\nRequires-Dist: ke-core<0.2,>=0.1\n"
        (info / "METADATA").write_text(about)
        (info / "entry_points.txt").write_text(f"[ke]\n{folder.name} = ke_plugin_made_{what}\n")
        (site / f"ke_plugin_made_{what}").symlink_to(folder / "src" / f"ke_plugin_made_{what}")
        return folder

    return make


def check(what: str, tmp_path: Path, *more: str) -> tuple[int, str]:
    done = python("-m", "ke_core", "plugins", "check", f"made-{what}", *more, at=tmp_path, path=tmp_path / "site")
    return done.returncode, done.stdout + done.stderr


def change(folder: Path, file: str, old: str, made: str) -> None:
    path = next((folder / "src").glob(f"*/{file}"))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, made))


def test_check_reports_that_every_check_passed(new: Callable[[str], Path], tmp_path: Path) -> None:
    new("judge")
    status, said = check("judge", tmp_path, "-o", "made-judge.ignore_case=false")
    assert status == 0, said
    assert re.search(r"plugin ke-plugin-made-judge: \d+ passed\njudge made-judge: \d+ passed\n", said)


def test_check_reports_problem_place_and_advice(new: Callable[[str], Path], tmp_path: Path) -> None:
    folder = new("memory")
    change(folder, "editor.py", "hidden=request.hidden", "hidden=frozenset()")
    change(folder, "editor.py", '"k": self.config.k,', '"k": 1 // (self.config.k - 1),')
    change(folder, "__init__.py", ', metadata={"help": "the words before the facts"}', "")
    status, said = check("memory", tmp_path)
    assert status == 1
    assert re.search(r"editor made-memory: \d\d passed, \d failed\n", said)
    for told in (
        "failed: hidden edits are not used",
        "do:    ignore the edits in request.hidden (pass them to Nearest), or set masks=False",
        "failed: every option has help",
        "failed: details are json",
        "found: ZeroDivisionError",
        "(ke_plugin_made_memory/editor.py:",
    ):
        assert told in said


def test_check_tests_the_package_before_its_components(new: Callable[[str], Path], tmp_path: Path) -> None:
    folder = new("metric")
    change(folder, "__init__.py", "from attrs import", 'print("hello")\nfrom attrs import')
    change(folder, "__init__.py", 'name="made-metric",', 'name="multi-hop",')
    (tmp_path / "site/ke_plugin_made_metric-0.1.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: ke-plugin-made-metric\nVersion: 0.1.0\n"
    )
    status, said = check("metric", tmp_path)
    assert status == 1
    assert re.search(r"plugin ke-plugin-made-metric: \d+ passed, 3 failed\n", said)
    for told in (
        "it prints 'hello'",
        "remove the print from the module",
        "failed: it declares the supported versions of ke-core",
        "failed: no other plugin has a metric called multi-hop",
        "do:    choose another name in its spec",
    ):
        assert told in said


def test_check_of_an_unloadable_plugin_gives_advice(new: Callable[[str], Path], tmp_path: Path) -> None:
    folder = new("metric")
    change(folder, "__init__.py", "from attrs import field, frozen", "import nowhere_to_be_found")
    status, said = check("metric", tmp_path)
    assert status == 1
    assert "found: ModuleNotFoundError: No module named 'nowhere_to_be_found'" in said
    assert "do:    add the package that provides nowhere_to_be_found to its dependencies" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plugins", "check", "nobody"), "error: plugin 'nobody' is not installed"),
        (("new", "judge", "made", "--kind", "weight"), "error: --kind is for editors, not for judge plugins"),
        (("new", "editor", "rome"), "error: editor 'rome' of ke-plugin-rome has that name"),
    ],
)
def test_problems_are_one_line_with_a_hint(words: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = python("-m", "ke_core", *words, at=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{told}\nhint:  ")
    assert list(tmp_path.iterdir()) == []
