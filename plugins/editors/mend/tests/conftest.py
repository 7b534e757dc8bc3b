"""Training on a tiny model, and checkpoints in the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ke_plugin_hf.testing import tiny_model
from ke_plugin_mend import MendConfig
from ke_plugin_mend.training import MendTrainer, MendTraining
from ke_testing.examples import BERLIN, GATE, MADRID, PARIS, ROME, TOWER, city_edit
from ke_testing.fakes import make_session
from ke_weights import Checkpoint, trained_folder
from ke_weights.trained import write_checkpoint
from ke_weights.trainers import TrainingExample

CONFIG = MendConfig(rank=8, batch=2, locality_length=12, lr=3e-3, step_lr=1e-3)
EXAMPLES = tuple(
    TrainingExample(edit=edit, paraphrases=(str(edit.question), f"Where does one find {edit.id}?"))
    for edit in (
        city_edit(TOWER, PARIS, BERLIN),
        city_edit(GATE, BERLIN, ROME),
        city_edit(TOWER, PARIS, MADRID),
        city_edit(GATE, BERLIN, PARIS),
    )
)


KNOWN: dict[tuple[str, int], Any] = {}
"""Results of trainings in this process, by model and steps."""


@pytest.fixture(autouse=True)
def _quick(one_thread: None) -> None:
    """Run torch on one thread."""


def begin(model: Any, root: Path, config: MendConfig = CONFIG, saved: Any = None) -> MendTraining:
    training = MendTrainer(config).start(make_session(model, root=root), EXAMPLES, saved)
    assert isinstance(training, MendTraining)
    return training


def leave(model: Any, root: Path, tensors: Any, folder: Path | None = None, *, editor: str = "mend") -> Path:
    """Write a checkpoint as ``ke train`` does."""
    session = make_session(model, root=root)
    trainer = MendTrainer(CONFIG)
    about = {
        "editor": editor,
        "model": model.id,
        "place": dict(trainer.place(session)),
        "recipe": dict(trainer.recipe(session)),
    }
    folder = folder or trained_folder(session.artifacts, "mend", about["place"])
    write_checkpoint(folder, Checkpoint(about=about, step=int(tensors["step"]), seconds=60.0, tensors=tensors))
    return folder


def tensors(model: Any, steps: int = 2) -> Any:
    """Return the tensors of a network trained for ``model``."""
    known = model.id, steps
    if known not in KNOWN:
        training = begin(model, Path())
        for _ in range(steps):
            training.advance()
        KNOWN[known] = training.tensors()
    return KNOWN[known]


@pytest.fixture
def trained(tmp_path: Path) -> Callable[..., Any]:
    """Return a function: a tiny model with a network trained for it in the cache under ``tmp_path``."""

    def make(family: Any = "llama", *, dtype: str = "float32", seed: int = 0, steps: int = 2) -> Any:
        model = tiny_model(family, dtype=dtype, seed=seed)
        leave(model, tmp_path, tensors(model, steps))
        return model

    return make


@pytest.fixture
def kit() -> SimpleNamespace:
    """The functions above: pytest imports no test module from another."""
    return SimpleNamespace(config=CONFIG, examples=EXAMPLES, begin=begin, leave=leave, tensors=tensors)
