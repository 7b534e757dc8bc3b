"""Training the network: the loop of MEND's authors, one step of the optimizers at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Adam

from ke_core.plugin import EditFailed, Session, Training, TrainingExample, TrainStep
from ke_plugin_mend import MendConfig
from ke_plugin_mend.examples import ExampleSampler, lessons_of
from ke_plugin_mend.factors import targets
from ke_plugin_mend.network import PREFIX, load_network, new_network
from ke_plugin_mend.objective import Losses, LossWeights, finite, objective
from ke_plugin_mend.profiles import settle_profile, values
from ke_weights.plugin import OpenModel, find_parts, frozen_module, read_corpus

SKIPS = 20
"""Steps in a row without a finite gradient after which the training is given up."""


class MendTrainer:
    """``ke_core.plugin.Trainer`` of ``mend``."""

    def __init__(self, config: MendConfig) -> None:
        self.config = config

    def place(self, session: Session[Any]) -> Mapping[str, Any]:
        """The weights it is trained for, and nothing else."""
        return {"model": session.model.plain.digest}

    def recipe(self, session: Session[OpenModel]) -> Mapping[str, Any]:
        """The profile's values for this model, the maps they are for, and the other text."""
        modules = find_parts(session.model.module)
        found = values(settle_profile(self.config, modules.hidden))
        corpus = read_corpus(self.config.locality)
        return found | {
            "maps": list(targets(modules, found["blocks"])),
            "locality": {"sha256": corpus.sha256, "length": self.config.locality_length},
        }

    def start(
        self, session: Session[OpenModel], examples: Sequence[TrainingExample], saved: Mapping[str, Any] | None
    ) -> Training:
        """The training at its beginning, or after the step that ``saved`` is of."""
        recipe = self.recipe(session)
        deck = ExampleSampler(
            lessons_of(examples, recipe["wordings"]),
            read_corpus(self.config.locality).documents,
            session.model.tokenizer,
            context=session.model.context,
            length=self.config.locality_length,
            seed=session.seed,
        )
        return MendTraining(session.model, deck, recipe, seed=session.seed, saved=saved)


class MendTraining:
    """A training between two steps. ``step``: how many are behind it."""

    def __init__(
        self,
        model: OpenModel,
        deck: ExampleSampler,
        recipe: Mapping[str, Any],
        *,
        seed: int = 0,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.deck, self.recipe = model, deck, recipe
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
        """Edit, test, learn. A step without finite gradients changes nothing but the normalizers."""
        module, batch = self.model.module, self.recipe["batch"]
        lessons = self.deck.deal(self.step * batch, batch, self.model.device)
        self.network.zero_grad(set_to_none=True)
        with frozen_module(module), torch.enable_grad():
            losses = objective(module, self.network, lessons, self.weights)
            losses.total.backward()  # type: ignore[no-untyped-call]  # torch's own
        self.step += 1
        parameters = list(self.network.parameters())
        learned = finite([losses.total, *(parameter.grad for parameter in parameters)])
        self.skipped = 0 if learned else self.skipped + 1
        norm = self._learn(parameters) if learned else 0.0
        if self.skipped >= SKIPS:
            raise EditFailed(
                f"the gradients of mend's network are not finite, {SKIPS} steps in a row up to step {self.step}",
                hint="lower -o mend.lr and mend.step_lr, or load the model with --dtype float32",
            )
        return self._said(losses, norm)

    def finished(self) -> bool:
        """Whether the profile's own number of steps is taken."""
        return bool(0 < self.recipe["steps"] <= self.step)

    def tensors(self) -> Mapping[str, Any]:
        """The network, both optimizers, and the step, from which the place in the data follows."""
        found = {f"{PREFIX}{name}": part for name, part in self.network.state_dict().items()}
        for kind, (parameters, optimizer) in self.optimizers.items():
            for name, parameter in parameters.items():
                for piece, value in optimizer.state[parameter].items():
                    found[f"adam.{kind}.{piece}.{name}"] = value
        arrays = {name: part.detach().cpu().numpy().copy() for name, part in found.items()}
        return arrays | {"step": np.array(self.step)}

    def _learn(self, parameters: Sequence[nn.Parameter]) -> float:
        """Step both optimizers; the norm of the gradient before it was clipped."""
        norm = float(nn.utils.clip_grad_norm_(parameters, self.recipe["clip"]))
        for _parameters, optimizer in self.optimizers.values():
            optimizer.step()
        return norm

    def _said(self, losses: Losses, norm: float) -> TrainStep:
        """Numbers that are not finite cannot stand in JSON: of a skipped step the loss before is given again."""
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
