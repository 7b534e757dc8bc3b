"""The core, two baselines and a dataset need no torch: installed alone, they evaluate and print a table."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from release_check import folders, with_dependencies

pytestmark = pytest.mark.integration
HEAVY = ("torch", "torchgen", "functorch", "transformers", "accelerate", "tokenizers", "peft", "nvidia", "triton")
WANTED = ("ke-plugin-parrot", "ke-plugin-oracle", "ke-plugin-atlas")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with these plugins and the third-party packages of this one without torch."""
    work = tmp_path_factory.mktemp("without-torch")
    (work / "packages").mkdir()
    for place in {sysconfig.get_path("purelib"), *_added(Path(sysconfig.get_path("purelib")))}:
        for entry in Path(place).iterdir():
            name = entry.name.lower()
            if not name.startswith((*HEAVY, "ke_", "ke-", "__editable__", "_ke")) and entry.suffix != ".pth":
                link = work / "packages" / entry.name
                if not link.exists():
                    link.symlink_to(entry)
    venv.create(work / "environment", with_pip=False)
    (site,) = (work / "environment").glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(f"{work / 'packages'}\n")
    found = work / "environment" / "bin" / "python"
    known = folders()
    ours = dict.fromkeys(one for name in WANTED for one in with_dependencies(known, name))
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(found), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", *(str(known[name]) for name in ours)], check=True)
    return found


def _added(purelib: Path) -> list[str]:
    """Return the folders that .pth files of ``purelib`` add."""
    lines = [line for file in purelib.glob("*.pth") for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if Path(line).is_dir() and (Path(line) / "numpy").exists()]


def test_torch_is_not_installed(python: Path) -> None:
    code = "from importlib.util import find_spec; print(find_spec('torch'), find_spec('transformers'))"
    assert subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout == "None None\n"


def test_the_baselines_are_evaluated_and_their_table_is_printed(python: Path, tmp_path: Path) -> None:
    command = [python, "-m", "ke_core", "eval", "--editor", "parrot", "--editor", "oracle", "--dataset", "atlas"]
    environment = {**os.environ, "KE_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "100"}
    done = subprocess.run(
        [*command, "--limit", "20"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert {"parrot", "oracle"} <= set(rows), done.stdout
