"""Training on a tiny model, and checkpoints in the cache."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ke_plugin_hf.testing import tiny_model
from ke_plugin_malmen import MalmenConfig, RLEditConfig
from ke_plugin_malmen.training import MalmenTrainer, SequenceTraining
from ke_testing.examples import BERLIN, GATE, MADRID, PARIS, ROME, TOWER, city_edit
from ke_testing.fakes import make_session
from ke_weights import Checkpoint, trained_folder
from ke_weights.trained import write_checkpoint
from ke_weights.trainers import TrainingExample

SHARED: Any = {
    "modules": ("down:2-3",), "rank": 8, "batch": 2, "locality_length": 12, "lr": 3e-3, "step_init": 1e-2,
}  # fmt: skip
CONFIGS: dict[str, Any] = {"malmen": MalmenConfig(**SHARED), "rledit": RLEditConfig(**SHARED, length=4, window=2)}
EXAMPLES = tuple(
    TrainingExample(edit=edit, paraphrases=(str(edit.question), f"Where does one find {edit.id}?"))
    for edit in (
        city_edit(TOWER, PARIS, BERLIN),
        city_edit(GATE, BERLIN, ROME),
        city_edit(TOWER, PARIS, MADRID),
        city_edit(GATE, BERLIN, PARIS),
    )
)
KNOWN: dict[tuple[str, str], Any] = {}
"""Results of trainings in this process, by editor and model."""


@pytest.fixture(autouse=True)
def _quick(one_thread: None) -> None:
    """Run torch on one thread."""


def begin(name: str, model: Any, root: Path, config: Any = None, saved: Any = None) -> SequenceTraining:
    trainer = MalmenTrainer(name, config or CONFIGS[name])
    training = trainer.start(make_session(model, root=root), EXAMPLES, saved)
    assert isinstance(training, SequenceTraining)
    return training


def leave(name: str, model: Any, root: Path, tensors: Any) -> Path:
    """Write a checkpoint as ``ke train`` does."""
    session = make_session(model, root=root)
    trainer = MalmenTrainer(name, CONFIGS[name])
    about = {
        "editor": name,
        "model": model.id,
        "place": dict(trainer.place(session)),
        "recipe": dict(trainer.recipe(session)),
    }
    folder = trained_folder(session.artifacts, name, about["place"])
    write_checkpoint(folder, Checkpoint(about=about, step=int(tensors["step"]), seconds=60.0, tensors=tensors))
    return folder


def tensors(name: str, model: Any) -> Any:
    """Return the tensors of a network trained for ``model`` with two steps."""
    if (name, model.id) not in KNOWN:
        training = begin(name, model, Path())
        for _ in range(2):
            training.advance()
        KNOWN[name, model.id] = training.tensors()
    return KNOWN[name, model.id]


def trained(name: str, root: Path, family: Any = "llama", *, dtype: str = "float32") -> Any:
    """Return a tiny model with a network trained for it in the cache under ``root``."""
    model = tiny_model(family, dtype=dtype)
    leave(name, model, root, tensors(name, model))
    return model


@pytest.fixture
def kit() -> SimpleNamespace:
    """The functions above: pytest imports no test module from another."""
    return SimpleNamespace(
        configs=CONFIGS, examples=EXAMPLES, begin=begin, leave=leave, tensors=tensors, trained=trained
    )
