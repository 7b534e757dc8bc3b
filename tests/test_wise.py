"""A killed sequential run of WISE loads its side memories. The commands for saved adaptors are tested with melo."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import check_killed_run

pytestmark = pytest.mark.integration

VALUES = {"module": "down:2", "steps": 15, "lr": 2, "alpha": 1, "beta": 4, "gamma": 2, "contexts": 0}
SHARDS = {"steps": 2, "save_freq": 2, "merge_freq": 4}


def options(values: dict[str, object]) -> tuple[str, ...]:
    return tuple(word for name, value in values.items() for word in ("-o", f"wise.{name}={value}"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


def test_killed_run_continues_with_the_saved_side_memories(model: Path, tmp_path: Path) -> None:
    """Shards of two edits, so that the run is killed in the middle of a shard and after a merge."""
    words = ("eval", "--editor", "wise", *options(VALUES | SHARDS), "--dataset", "atlas", "--limit", 3)
    words += ("--sequential", "--eval-every", "1", "--model", str(model))
    check_killed_run(tmp_path, "ke_plugin_wise.edited:learn", *words)
