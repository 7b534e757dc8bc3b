"""The script reproduces the committed atlas from its two source packages."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

import pytest

from ke_benchmarks.graph import load_atlas

SCRIPT = Path(__file__).parents[3] / "scripts" / "build_atlas.py"


def test_the_script_reproduces_the_committed_file(tmp_path: Path) -> None:
    if not SCRIPT.exists():
        pytest.skip("the script that builds the atlas is not here: this is not the whole repository")
    for source in load_atlas().sources:
        try:
            found = version(source["name"])
        except PackageNotFoundError:
            pytest.skip(f"{source['name']} is not installed")
        if found != source["version"]:
            pytest.skip(f"the atlas was made from {source['name']} {source['version']}, not {found}")
    made = tmp_path / "atlas.json"
    done = subprocess.run([sys.executable, str(SCRIPT), str(made)], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert made.read_bytes() == files("ke_benchmarks.graph").joinpath("atlas.json").read_bytes()
