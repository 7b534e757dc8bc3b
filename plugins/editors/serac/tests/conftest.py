"""Training on a tiny model, and checkpoints in the cache."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from ke_core.plugin import Session
from ke_plugin_hf.testing import saved, tiny_model
from ke_plugin_serac import SeracConfig
from ke_plugin_serac.training import SeracTrainer, SeracTraining
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import EchoModel, make_session
from ke_weights import Checkpoint, trained_folder
from ke_weights.trained import write_checkpoint
from ke_weights.trainers import TrainingExample

EXAMPLES = tuple(
    TrainingExample(
        edit=edit, paraphrases=(str(edit.question), f"Where does one find {edit.id}?"), locality=("Who wrote Misery?",)
    )
    for edit in FOUR_MOVES
)
CONFIG = SeracConfig(blocks=2, lr=3e-3, batch=3, scope_batch=3)
KNOWN: dict[int, Any] = {}
"""Tensors of trainings in this process, by number of steps."""


@pytest.fixture(autouse=True)
def _quick(one_thread: None) -> None:
    """Run torch on one thread."""


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a counterfactual model."""
    return saved(tiny_model(seed=1), tmp_path_factory.mktemp("counterfactual"))


class SeracTestKit(SimpleNamespace):
    """Functions for tests: pytest imports no test module from another."""

    config: SeracConfig
    examples = EXAMPLES

    def begin(self, root: Path, saved: Any = None, examples: Any = EXAMPLES) -> SeracTraining:
        """Start a training, or resume it."""
        training = SeracTrainer(self.config).start(make_session(EchoModel(), root=root), examples, saved)
        assert isinstance(training, SeracTraining)
        return training

    def tensors(self, steps: int) -> Any:
        """Return the tensors of a training with ``steps`` steps."""
        if steps not in KNOWN:
            training = self.begin(Path())
            for _ in range(steps):
                training.advance()
            KNOWN[steps] = training.tensors()
        return KNOWN[steps]

    def leave(self, root: Path, steps: int = 2, **about: Any) -> Path:
        """Write a checkpoint as ``ke train`` does."""
        session, trainer = make_session(EchoModel(), root=root), SeracTrainer(self.config)
        about = {"editor": "serac", "place": trainer.place(session), "recipe": trainer.recipe(session)} | about
        folder = trained_folder(session.artifacts, "serac", dict(trainer.place(session)))
        write_checkpoint(folder, Checkpoint(about=about, step=steps, seconds=60.0, tensors=self.tensors(steps)))
        return folder

    def session(self, model: Any, root: Path, steps: int = 2) -> Session[Any]:
        """Return a session with trained networks in its cache."""
        self.leave(root, steps)
        return make_session(model, root=root)


@pytest.fixture
def kit(small: Path) -> SeracTestKit:
    return SeracTestKit(config=evolve(CONFIG, counterfactual=str(small)))
