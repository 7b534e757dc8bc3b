"""Training the network on sequences of batches, one batch per step. MALMEN's sequences have one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ke_core.plugin import Session
from ke_plugin_malmen import MalmenConfig
from ke_plugin_malmen.network import OF_MATRICES, MalmenNetwork, new_network
from ke_plugin_malmen.objective import SequenceWeights, sequence_step
from ke_plugin_malmen.profiles import resolve_profile
from ke_weights.hypernetwork import (
    ExampleSampler,
    HypernetworkTrainer,
    HypernetworkTraining,
    NetworkOptimizer,
    StepLosses,
    setting_values,
)
from ke_weights.plugin import OpenModel, find_parts, model_facts, named_maps

SHIFT, GRADIENT = "shift.", "gradient."


class MalmenTrainer(HypernetworkTrainer):
    """Trainer of ``malmen`` and ``rledit``; ``name``: which of them."""

    def __init__(self, name: str, config: MalmenConfig) -> None:
        super().__init__(config)
        self.name = name

    def settings(self, session: Session[OpenModel]) -> dict[str, Any]:
        """Return the profile's values for this model, and the layers."""
        modules = find_parts(session.model.module)
        found = setting_values(resolve_profile(self.name, self.config, model_facts(session, modules)))
        return found | {"maps": list(named_maps(modules, found["modules"], self.name))}

    def training(
        self, session: Session[OpenModel], sampler: ExampleSampler, recipe: Mapping[str, Any]
    ) -> SequenceTraining:
        """Return the training before its first step."""
        return SequenceTraining(self.name, session.model, sampler, recipe, seed=session.seed)


class SequenceTraining(HypernetworkTraining[MalmenNetwork]):
    """A training between two steps. ``shifts``: the sum of the shifts of the current sequence, empty at its start.

    With ``accumulate``, the gradients of a sequence are summed, clipped after every batch, and used for one optimizer
    step at its end, as RLEdit published. A batch without finite gradients leaves the sum as it is.
    """

    def __init__(
        self, name: str, model: OpenModel, sampler: ExampleSampler, recipe: Mapping[str, Any], *, seed: int = 0
    ) -> None:
        self.editor = name
        network = new_network(model.module, recipe, name, seed=seed)
        every = dict(network.named_parameters())
        optimizers = {
            "network": NetworkOptimizer({n: one for n, one in every.items() if n not in OF_MATRICES}, recipe["lr"]),
            "matrices": NetworkOptimizer({n: every[n] for n in OF_MATRICES}, recipe["step_lr"]),
        }
        super().__init__(model, sampler, recipe, network, optimizers)
        self.shifts: dict[str, Tensor] = {}
        self.weights = SequenceWeights(
            edit=1.0, locality=recipe["locality_weight"], shift=recipe["shift_weight"], discount=recipe["discount"]
        )

    @property
    def place(self) -> int:
        """The number of the next batch in its sequence, from 0."""
        return self.step % int(self.recipe["length"])

    def prepare(self) -> None:
        """Begin a new sequence on the original model, if the last one is over, and clear the gradients."""
        if self.place == 0:
            self.shifts = {}
        if self.place == 0 or not self.recipe["accumulate"]:
            super().prepare()

    def compute(self) -> StepLosses:
        """Return the loss of the next batch, and add its gradients. Its shift stays."""
        count = self.recipe["batch"]
        ages = range(min(self.place + 1, self.recipe["window"]))
        batches = [self.sampler.batch((self.step - age) * count, count, self.model.device) for age in ages]
        done = sequence_step(self.model.module, self.network, batches, self.shifts, self.weights)
        self.shifts = done.shifts
        return done.losses

    def update(self) -> float:
        """Clip the gradients; step the optimizers, unless they wait for the end of the sequence."""
        if self.recipe["accumulate"] and self.place != 0:  # ``step`` is already that of the next batch
            return self.clip()
        return super().update()

    def skip(self) -> float:
        """Step the optimizers if a sequence with accumulated gradients ends with this batch."""
        return super().update() if self.recipe["accumulate"] and self.place == 0 else super().skip()

    def step_size(self) -> float:
        """Return the mean learned step size."""
        return float(self.network.etas().detach().mean())

    def tensors(self) -> Mapping[str, Any]:
        """Return the network, the optimizers, the shifts, and the gradients if they are accumulated."""
        found = {f"{SHIFT}{name}": one for name, one in self.shifts.items()}
        if self.recipe["accumulate"]:
            every = self.network.named_parameters()
            found |= {f"{GRADIENT}{name}": one.grad for name, one in every if one.grad is not None}
        return {**super().tensors(), **{name: one.cpu().numpy().copy() for name, one in found.items()}}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from ``tensors`` of a checkpoint."""
        super().load(saved)
        device = self.model.device
        for name in self.network.shapes:
            if SHIFT + name in saved:
                self.shifts[name] = torch.from_numpy(np.array(saved[SHIFT + name])).to(device)
        for name, parameter in self.network.named_parameters():
            if GRADIENT + name in saved:
                parameter.grad = torch.from_numpy(np.array(saved[GRADIENT + name])).to(parameter.device)
