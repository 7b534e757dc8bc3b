"""Training the network: the loop of MEND's authors, one optimizer step at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Adam

from ke_core.plugin import EditFailed, Session, Training, TrainingExample, TrainStep
from ke_plugin_mend import MendConfig
from ke_plugin_mend.examples import ExampleSampler, usable_examples
from ke_plugin_mend.factors import targets
from ke_plugin_mend.network import PREFIX, load_network, new_network
from ke_plugin_mend.objective import Losses, LossWeights, finite, objective
from ke_plugin_mend.profiles import resolve_profile, values
from ke_weights.plugin import OpenModel, find_parts, frozen_module, read_corpus

SKIPS = 20
"""Maximum number of consecutive steps without a finite gradient."""


class MendTrainer:
    """Trainer of ``mend``."""

    def __init__(self, config: MendConfig) -> None:
        self.config = config

    def place(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return what a network belongs to: the model's weights."""
        return {"model": session.model.plain.digest}

    def recipe(self, session: Session[OpenModel]) -> Mapping[str, Any]:
        """Return the profile's values for this model, the layers, and the other text."""
        modules = find_parts(session.model.module)
        found = values(resolve_profile(self.config, modules.hidden))
        corpus = read_corpus(self.config.locality)
        return found | {
            "maps": list(targets(modules, found["blocks"])),
            "locality": {"sha256": corpus.sha256, "length": self.config.locality_length},
        }

    def start(
        self, session: Session[OpenModel], examples: Sequence[TrainingExample], saved: Mapping[str, Any] | None
    ) -> Training:
        """Start the training, or resume it from ``saved``."""
        recipe = self.recipe(session)
        sampler = ExampleSampler(
            usable_examples(examples, recipe["wordings"]),
            read_corpus(self.config.locality).documents,
            session.model.tokenizer,
            context=session.model.context,
            length=self.config.locality_length,
            seed=session.seed,
        )
        return MendTraining(session.model, sampler, recipe, seed=session.seed, saved=saved)


class MendTraining:
    """A training between two steps. ``step``: number of steps made."""

    def __init__(
        self,
        model: OpenModel,
        sampler: ExampleSampler,
        recipe: Mapping[str, Any],
        *,
        seed: int = 0,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.sampler, self.recipe = model, sampler, recipe
        self.step = self.skipped = 0
        self.last = 0.0
        self.network = new_network(model.module, recipe, seed=seed)
        every = dict(self.network.named_parameters())
        of_network = {name: part for name, part in every.items() if recipe["both_adams"] or name != "steps"}
        self.optimizers = {
            "network": (of_network, Adam(of_network.values(), lr=recipe["lr"])),
            "steps": ({"steps": every["steps"]}, Adam([every["steps"]], lr=recipe["step_lr"])),
        }
        self.weights = LossWeights(recipe["edit_weight"], recipe["locality_weight"])
        if saved is not None:
            self._load(saved)

    def advance(self) -> TrainStep:
        """Edit, test, update. A step without finite gradients changes only the normalizers."""
        module, batch = self.model.module, self.recipe["batch"]
        examples = self.sampler.batch(self.step * batch, batch, self.model.device)
        self.network.zero_grad(set_to_none=True)
        with frozen_module(module), torch.enable_grad():
            losses = objective(module, self.network, examples, self.weights)
            losses.total.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        self.step += 1
        parameters = list(self.network.parameters())
        is_finite = finite([losses.total, *(parameter.grad for parameter in parameters)])
        self.skipped = 0 if is_finite else self.skipped + 1
        norm = self._update(parameters) if is_finite else 0.0
        if self.skipped >= SKIPS:
            raise EditFailed(
                f"the gradients of mend's network were not finite in {SKIPS} consecutive steps up to step {self.step}",
                hint="lower -o mend.lr and -o mend.step_lr, or load the model with --dtype float32",
            )
        return self._train_step(losses, norm)

    def finished(self) -> bool:
        """Return whether the profile's number of steps is reached."""
        return bool(0 < self.recipe["steps"] <= self.step)

    def tensors(self) -> Mapping[str, Any]:
        """Return the network, both optimizers, and the step, which determines the position in the data."""
        found = {f"{PREFIX}{name}": part for name, part in self.network.state_dict().items()}
        for kind, (parameters, optimizer) in self.optimizers.items():
            for name, parameter in parameters.items():
                for piece, value in optimizer.state[parameter].items():
                    found[f"adam.{kind}.{piece}.{name}"] = value
        arrays = {name: part.detach().cpu().numpy().copy() for name, part in found.items()}
        return arrays | {"step": np.array(self.step)}

    def _update(self, parameters: Sequence[nn.Parameter]) -> float:
        """Step both optimizers. Return the norm of the gradient before clipping."""
        norm = float(nn.utils.clip_grad_norm_(parameters, self.recipe["clip"]))
        for _parameters, optimizer in self.optimizers.values():
            optimizer.step()
        return norm

    def _train_step(self, losses: Losses, norm: float) -> TrainStep:
        """Return the numbers of the step. JSON needs finite ones: a skipped step repeats the previous loss."""
        self.last = float(losses.total.detach()) if not self.skipped else self.last
        numbers = {"edit": losses.edit, "locality": losses.locality, "unedited": losses.before}
        return TrainStep(
            step=self.step,
            loss=self.last,
            numbers={name: value if not self.skipped else 0.0 for name, value in numbers.items()}
            | {
                "gradient": norm,
                "step_size": float(self.network.steps.detach().mean()),
                "skipped": float(self.skipped > 0),
            },
        )

    def _load(self, saved: Mapping[str, Any]) -> None:
        self.step = int(saved["step"])
        load_network(self.network, saved)
        for kind, (parameters, optimizer) in self.optimizers.items():
            for name, parameter in parameters.items():
                pieces = ("step", "exp_avg", "exp_avg_sq")
                if f"adam.{kind}.step.{name}" in saved:
                    optimizer.state[parameter] = {
                        piece: _tensor(saved[f"adam.{kind}.{piece}.{name}"], parameter if piece != "step" else None)
                        for piece in pieces
                    }


def _tensor(array: Any, like: nn.Parameter | None) -> torch.Tensor:
    found = torch.from_numpy(np.array(array))
    return found if like is None else found.to(like.device)
