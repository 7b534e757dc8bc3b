"""Training the network: the loop of MEND's authors, one optimizer step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ke_core.plugin import Session
from ke_plugin_mend import MendConfig
from ke_plugin_mend.branches import targets
from ke_plugin_mend.network import MendNetwork, new_network
from ke_plugin_mend.objective import LossWeights, objective
from ke_plugin_mend.profiles import resolve_profile
from ke_weights.hypernetwork import (
    ExampleSampler,
    HypernetworkTrainer,
    HypernetworkTraining,
    NetworkOptimizer,
    StepLosses,
    setting_values,
)
from ke_weights.plugin import OpenModel, find_parts


class MendTrainer(HypernetworkTrainer):
    """Trainer of ``mend``."""

    config: MendConfig

    def settings(self, session: Session[OpenModel]) -> dict[str, Any]:
        """Return the profile's values for this model, and the layers."""
        modules = find_parts(session.model.module)
        found = setting_values(resolve_profile(self.config, modules.hidden))
        return found | {"maps": list(targets(modules, found["blocks"]))}

    def training(self, session: Session[OpenModel], sampler: ExampleSampler, recipe: Mapping[str, Any]) -> MendTraining:
        """Return the training before its first step."""
        return MendTraining(session.model, sampler, recipe, seed=session.seed)


class MendTraining(HypernetworkTraining[MendNetwork]):
    """A training between two steps."""

    editor = "mend"

    def __init__(self, model: OpenModel, sampler: ExampleSampler, recipe: Mapping[str, Any], *, seed: int = 0) -> None:
        network = new_network(model.module, recipe, seed=seed)
        every = dict(network.named_parameters())
        of_network = {name: part for name, part in every.items() if recipe["both_adams"] or name != "steps"}
        optimizers = {
            "network": NetworkOptimizer(of_network, recipe["lr"]),
            "steps": NetworkOptimizer({"steps": every["steps"]}, recipe["step_lr"]),
        }
        super().__init__(model, sampler, recipe, network, optimizers)
        self.weights = LossWeights(recipe["edit_weight"], recipe["locality_weight"])

    def compute(self) -> StepLosses:
        """Return L of the next batch (equation 4), and add its gradients."""
        batch = self.recipe["batch"]
        examples = self.sampler.batch(self.step * batch, batch, self.model.device)
        losses = objective(self.model.module, self.network, examples, self.weights)
        losses.total.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        return losses

    def step_size(self) -> float:
        """Return the mean learned step size."""
        return float(self.network.steps.detach().mean())
