"""Training on sentences about cities, and checkpoints in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ke_core.plugin import Edit
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.training import ScopeTrainer, ScopeTraining
from ke_testing.fakes import EchoModel, make_session
from ke_weights import Checkpoint, trained_folder
from ke_weights.trained import write_checkpoint
from ke_weights.trainers import TrainingExample

CITIES = ("Rome", "Oslo", "Lima", "Bonn", "Kyiv", "Bern")
FACTS = (("{} is located in", "In which city is {}?", "Where does one find {}?"),
         ("{} was born in", "Where was {} born?", "Which city is {} from?"),
         ("The mayor of {} is", "Who is the mayor of {}?", "Who governs {}?"))  # fmt: skip
EXAMPLES = tuple(
    TrainingExample(
        edit=Edit(id=f"{name}-{kind}", statement=f"{cloze.format(name)} {CITIES[(row + kind) % 6]}"),
        paraphrases=(first.format(name), second.format(name)),
    )
    for row, name in enumerate(f"{first} {last}" for first in ("Ada", "Bo", "Cy", "Di") for last in ("Fox", "Hay"))
    for kind, (cloze, first, second) in enumerate(FACTS)
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def begin(
    root: Path, *, saved: Any = None, seed: int = 0, config: Any = None, encoder: Any = None, examples: Any = EXAMPLES
) -> ScopeTraining:
    session = make_session(EchoModel(), root=root, seed=seed, encoder=encoder)
    training = ScopeTrainer(config or PokemqaConfig()).start(session, examples, saved)
    assert isinstance(training, ScopeTraining)
    return training


def leave(root: Path, tensors: Any, *, folder: Path | None = None, config: Any = None, encoder: Any = None, **about):
    """Write a checkpoint as ``ke train`` does, after a tenth of a minute."""
    session = make_session(EchoModel(), root=root, encoder=encoder)
    place = dict(ScopeTrainer(config or PokemqaConfig()).place(session))
    said = {"editor": "pokemqa", "model": "none", "place": place, "recipe": {}} | about
    folder = folder or trained_folder(session.artifacts, "pokemqa", place)
    write_checkpoint(folder, Checkpoint(about=said, step=int(tensors["step"]), seconds=6.0, tensors=tensors))
    return folder


def after(steps: int, root: Path, **how: Any) -> ScopeTraining:
    """Return a training after ``steps`` steps."""
    training = begin(root, **how)
    for _ in range(steps):
        training.advance()
    return training


@pytest.fixture
def kit() -> SimpleNamespace:
    """The functions above: pytest imports no test module from another."""
    return SimpleNamespace(examples=EXAMPLES, begin=begin, after=after, leave=leave)
