"""A killed sequential run of MELO loads its LoRA blocks, and ``ke edit``, ``ke verify`` and ``ke serve`` use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import check_killed_run, check_saved_adaptor

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


def test_killed_run_continues_with_the_saved_blocks(model: Path, tmp_path: Path) -> None:
    words: tuple[object, ...] = ("eval", "--editor", "melo", "-o", "melo.steps=2", "--dataset", "atlas", "--limit", 3)
    words += ("--sequential", "--eval-every", "1", "--model", str(model))
    check_killed_run(tmp_path, "ke_plugin_melo.edited:MeloModel._learn", *words)


def test_saved_blocks_are_verified_and_served(model: Path, tmp_path: Path) -> None:
    check_saved_adaptor(tmp_path, model, "melo")
