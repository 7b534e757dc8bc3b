"""A tiny model in a folder, and a file of facts about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ke_core.app import main
from ke_plugin_hf.testing import saved, tiny_model

FACTS = """
# the facts of our model
model = "{model}"
editor = "ft"
out = "edited"

[options.ft]
constrained = false
layers = [1]

[bounds.min]
efficacy = 0.0

[[facts]]  # from the ministry
id = "peru"
prompt = "The capital of {{}} is"
subject = "Peru"
target = "Cusco"
source = "ministry"
date = 2026-11-01
owner = "anna"

[[facts]]
prompt = "The capital of {{}} is"
subject = "Chile"
target = "Arica"
"""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model("llama"), tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def facts(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "facts.toml"
    path.write_text(FACTS.format(model=model), encoding="utf-8")
    return path


@pytest.fixture
def ke() -> Callable[..., int]:
    """Run the command line in this process; return its exit status."""
    return lambda *words: main(["-q", *map(str, words)])
