"""The example of an adaptor keeps its contract, resumes a killed run, and is saved, verified and served."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from ke_weights.testing.adaptor import AdaptorContract

EXAMPLE = Path(__file__).resolve().parents[1] / "docs/examples/grace"


def install(site: Path) -> Path:
    """Put the example into ``site``, as pip would leave it."""
    info = site / "ke_plugin_grace_like-0.1.0.dist-info"
    info.mkdir(parents=True)
    about = "Metadata-Version: 2.1\nName: ke-plugin-grace-like\nVersion: 0.1.0\nRequires-Dist: ke-core<0.2,>=0.1\n"
    (info / "METADATA").write_text(about, encoding="utf-8")
    (info / "entry_points.txt").write_text("[ke]\nke-plugin-grace-like = grace_like\n", encoding="utf-8")
    for file in EXAMPLE.glob("*.py"):
        (site / file.name).symlink_to(file)
    return site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("grace") / "site")


@pytest.fixture(autouse=True)
def _installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this process and in those that it starts."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))
    yield
    for name in ("grace_like", "grace_like_codebook"):
        sys.modules.pop(name, None)


class TestContract(AdaptorContract):
    name = "grace-like"
    options: ClassVar = {"steps": "3"}
