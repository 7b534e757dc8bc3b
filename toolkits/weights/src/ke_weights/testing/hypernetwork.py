"""Trainings of hypernetworks on tiny models, and their checkpoints in the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import field, frozen

from ke_plugin_hf.testing import tiny_model
from ke_testing.examples import BERLIN, GATE, MADRID, PARIS, ROME, TOWER, city_edit
from ke_testing.fakes import make_session
from ke_weights.hypernetwork import HypernetworkTrainer, HypernetworkTraining
from ke_weights.trained import Checkpoint, read_checkpoint, trained_folder, write_checkpoint
from ke_weights.trainers import TrainingExample

EXAMPLES = tuple(
    TrainingExample(edit=edit, paraphrases=(str(edit.question), f"Where does one find {edit.id}?"))
    for edit in (
        city_edit(TOWER, PARIS, BERLIN),
        city_edit(GATE, BERLIN, ROME),
        city_edit(TOWER, PARIS, MADRID),
        city_edit(GATE, BERLIN, PARIS),
    )
)


@frozen(kw_only=True, eq=False)
class HypernetworkKit:
    """``trainer`` returns the trainer of an editor for its options. ``configs``: options by the editor's name."""

    trainer: Callable[[str, Any], HypernetworkTrainer]
    configs: Mapping[str, Any]
    examples: tuple[TrainingExample, ...] = EXAMPLES
    _known: dict[tuple[str, str, int], Any] = field(factory=dict, init=False)

    def begin(
        self, name: str, model: Any, root: Path, config: Any = None, saved: Any = None
    ) -> HypernetworkTraining[Any]:
        """Start a training, or resume it."""
        trainer = self.trainer(name, config or self.configs[name])
        return trainer.start(make_session(model, root=root), self.examples, saved)

    def leave(
        self, name: str, model: Any, root: Path, tensors: Any, folder: Path | None = None, *, editor: str = ""
    ) -> Path:
        """Write a checkpoint as ``ke train`` does. ``editor``: the name in it, if it is another one."""
        session, trainer = make_session(model, root=root), self.trainer(name, self.configs[name])
        place, recipe = dict(trainer.place(session)), dict(trainer.recipe(session))
        about = {"editor": editor or name, "model": model.id, "place": place, "recipe": recipe}
        folder = folder or trained_folder(session.artifacts, name, place)
        write_checkpoint(folder, Checkpoint(about=about, step=int(tensors["step"]), seconds=60.0, tensors=tensors))
        return folder

    def tensors(self, name: str, model: Any, steps: int = 2) -> Any:
        """Return the tensors of a network trained for ``model``, computed once."""
        known = name, model.id, steps
        if known not in self._known:
            training = self.begin(name, model, Path())
            for _ in range(steps):
                training.advance()
            self._known[known] = training.tensors()
        return self._known[known]

    def trained(
        self, name: str, root: Path, family: Any = "llama", *, dtype: str = "float32", seed: int = 0, steps: int = 2
    ) -> Any:
        """Return a tiny model with a network trained for it in the cache under ``root``."""
        model = tiny_model(family, dtype=dtype, seed=seed)
        self.leave(name, model, root, self.tensors(name, model, steps))
        return model

    def expect_resumed(self, name: str, root: Path, config: Any = None, *, saved_after: int) -> None:
        """Expect the same bits from six steps and from a training that was killed and resumed."""
        through, parts = (self.begin(name, tiny_model("gpt2"), root, config) for _ in range(2))
        for _ in range(6):
            through.advance()
        for _ in range(saved_after):
            parts.advance()
        folder = self.leave(name, tiny_model("gpt2"), root, parts.tensors())
        for _ in range(2):
            parts.advance()  # steps that a kill would lose
        saved = read_checkpoint(folder)
        assert saved is not None
        resumed = self.begin(name, tiny_model("gpt2"), root, config, saved.tensors)
        assert [resumed.advance().step for _ in range(saved_after, 6)] == [*range(saved_after + 1, 7)]
        one, other = through.tensors(), resumed.tensors()
        assert set(one) == set(other)
        assert all(np.array_equal(one[key], other[key]) for key in one)


def shaken(training: HypernetworkTraining[Any]) -> Any:
    """Return the network with random parameters, so that no term of its gradient is zero."""
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in training.network.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype))
    return training.network
