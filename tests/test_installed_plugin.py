"""A distribution that is built and installed with pip, next to one that fails on import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

DEMO = Path(__file__).resolve().parent / "demo_plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the demo plugin with pip into a folder for the path."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(folder), str(DEMO)], check=True, capture_output=True)
    return folder


def ke(*words: str, site: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "ke_core", *words], env=environment, capture_output=True, text=True, check=False
    )


def test_an_installed_plugin_is_listed_with_its_version(site: Path) -> None:
    done = ke("plugins", site=site)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "ke-plugin-demo" in line)
    assert "0.3.1" in row
    assert "demo" in row


def test_an_installed_plugin_is_shown_with_its_options(site: Path) -> None:
    done = ke("show", "demo", site=site)
    assert done.returncode == 0, done.stderr
    for shown in ("one word for everything", "word", "forty-two", "what it says", "ke-plugin-demo"):
        assert shown in done.stdout


def test_a_plugin_that_raises_on_import_does_not_affect_others(site: Path, tmp_path: Path) -> None:
    (tmp_path / "ke_plugin_broken.py").write_text("raise RuntimeError('no such library')\n", encoding="utf-8")
    info = tmp_path / "ke_plugin_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ke-plugin-broken\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[ke]\nke-plugin-broken = ke_plugin_broken\n", encoding="utf-8")
    both = Path(f"{site}{os.pathsep}{tmp_path}")
    done = ke("plugins", site=both)
    assert done.returncode == 0, done.stderr
    assert "RuntimeError: no such library" in done.stdout
    assert "ke-plugin-demo" in done.stdout
    asked_for = ke("show", "broken", site=both)
    assert asked_for.returncode == 2
    assert "ke-plugin-broken is broken (RuntimeError: no such library)" in asked_for.stderr
