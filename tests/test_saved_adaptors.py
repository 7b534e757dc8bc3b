"""A killed sequential run of an adaptor loads its state, and ``ke edit``, ``ke verify`` and ``ke serve`` use it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import check_killed_run, check_saved_adaptor

pytestmark = pytest.mark.integration


WISE = {"module": "down:2", "steps": 15, "lr": 2, "alpha": 1, "beta": 4, "gamma": 2, "contexts": 0}
SHARDS = {"steps": 2, "save_freq": 2, "merge_freq": 4}  # the run is killed inside a shard of two edits, after a merge
SAVED: Mapping[str, Mapping[str, object]] = {"grace": {"steps": 20, "eps": 1e-3}, "melo": {}, "wise": WISE}
KILLED = (
    ("grace", {"steps": 2, "eps": 1e-3}, "ke_plugin_grace.editor:GraceModel._learn"),
    ("melo", {"steps": 2}, "ke_plugin_melo.edited:MeloModel._learn"),
    ("wise", WISE | SHARDS, "ke_plugin_wise.edited:learn"),
)
"""Editor, options, and the function that makes an edit."""


def words_of(editor: str, values: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(word for name, value in values.items() for word in ("-o", f"{editor}.{name}={value}"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(), tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.parametrize(("editor", "values", "learns"), KILLED, ids=[name for name, *_rest in KILLED])
def test_killed_run_continues_with_the_saved_state(
    editor: str, values: Mapping[str, object], learns: str, model: Path, tmp_path: Path
) -> None:
    words = ("eval", "--editor", editor, *words_of(editor, values), "--dataset", "atlas", "--limit", 3)
    words += ("--sequential", "--eval-every", "1", "--model", str(model))
    check_killed_run(tmp_path, learns, *words)


@pytest.mark.parametrize("editor", SAVED)
def test_saved_state_is_verified_and_served(editor: str, model: Path, tmp_path: Path) -> None:
    check_saved_adaptor(tmp_path, model, editor, *words_of(editor, SAVED[editor]))
