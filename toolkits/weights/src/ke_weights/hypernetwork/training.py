"""The training of a hypernetwork: steps, checkpoints, and what its objectives share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from attrs import frozen
from torch import Tensor, nn
from torch.optim import Adam

from ke_core.plugin import EditFailed, Session
from ke_plugin_hf.model import HFModel
from ke_weights.corpus import read_corpus
from ke_weights.example_lengths import ExampleTexts, check_lengths
from ke_weights.hooks import frozen_module
from ke_weights.hypernetwork.editor import place_of
from ke_weights.hypernetwork.examples import ExampleSampler, usable_examples
from ke_weights.hypernetwork.network import PREFIX, Hypernetwork, load_network
from ke_weights.trainers import TrainingExample, TrainStep

N = TypeVar("N", bound=Hypernetwork)
SKIPS = 20
"""Maximum number of consecutive steps without a finite gradient."""


@frozen(eq=False)
class StepLosses:
    """Means over the edits of a step, in nats. ``total`` may have a gradient. ``before``: of the unedited prompt."""

    total: Tensor
    edit: float
    locality: float
    before: float


class NetworkOptimizer:
    """Adam on some parameters of the network, by name."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], lr: float) -> None:
        self.parameters = dict(parameters)
        self.adam = Adam(self.parameters.values(), lr=lr)

    def tensors(self) -> dict[str, Tensor]:
        """Return Adam's moments by piece and parameter."""
        state = self.adam.state
        return {
            f"{piece}.{name}": value
            for name, parameter in self.parameters.items()
            for piece, value in state[parameter].items()
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Load ``tensors`` of a checkpoint."""
        for name, parameter in self.parameters.items():
            if f"step.{name}" in saved:
                self.adam.state[parameter] = {
                    "step": torch.from_numpy(np.array(saved[f"step.{name}"])),
                    "exp_avg": _like(saved[f"exp_avg.{name}"], parameter),
                    "exp_avg_sq": _like(saved[f"exp_avg_sq.{name}"], parameter),
                }


class HypernetworkTraining(ABC, Generic[N]):
    """A training between two steps. ``step``: number of steps made. ``recipe``: the settings of the training.

    A subclass computes the gradients of a step. A step depends on its number and on what ``tensors`` returns.
    """

    editor: str

    def __init__(
        self,
        model: HFModel,
        sampler: ExampleSampler,
        recipe: Mapping[str, Any],
        network: N,
        optimizers: Mapping[str, NetworkOptimizer],
    ) -> None:
        self.model, self.sampler, self.recipe, self.network = model, sampler, recipe, network
        self.optimizers = optimizers
        self.step = self.skipped = 0
        self.last = 0.0

    @abstractmethod
    def compute(self) -> StepLosses:
        """Return the losses of the next step, and add the gradients of the network's parameters.

        Gradients are enabled, and the parameters of the model are frozen.
        """

    @abstractmethod
    def step_size(self) -> float:
        """Return the mean step size of the matrices."""

    def advance(self) -> TrainStep:
        """Edit, test, update. A step without finite gradients changes only the normalizers."""
        self.prepare()
        parameters = [*self.network.parameters()]
        kept = [None if parameter.grad is None else parameter.grad.clone() for parameter in parameters]
        with frozen_module(self.model.module), torch.enable_grad():
            losses = self.compute()
        self.step += 1
        is_finite = finite([losses.total, *(parameter.grad for parameter in parameters)])
        self.skipped = 0 if is_finite else self.skipped + 1
        if not is_finite:  # accumulated gradients stay
            for parameter, gradient in zip(parameters, kept, strict=True):
                parameter.grad = gradient
        norm = self.update() if is_finite else self.skip()
        if self.skipped >= SKIPS:
            raise EditFailed(
                f"the gradients of {self.editor}'s network were not finite in {SKIPS} consecutive steps up to step "
                f"{self.step}",
                hint=f"lower -o {self.editor}.lr and -o {self.editor}.step_lr, or load the model with --dtype float32",
            )
        return self._train_step(losses, norm)

    def prepare(self) -> None:
        """Clear the gradients of the previous step."""
        self.network.zero_grad(set_to_none=True)

    def update(self) -> float:
        """Step the optimizers. Return the norm of the gradient before clipping."""
        norm = self.clip()
        for optimizer in self.optimizers.values():
            optimizer.adam.step()
        return norm

    def skip(self) -> float:
        """End a step without finite gradients. Return the norm of the gradient that is used: 0 for none."""
        return 0.0

    def clip(self) -> float:
        """Clip the gradient to the recipe's norm. Return its norm before."""
        return float(nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe["clip"]))

    def finished(self) -> bool:
        """Return whether the profile's number of steps is reached."""
        return bool(0 < self.recipe["steps"] <= self.step)

    def tensors(self) -> Mapping[str, Any]:
        """Return the network, the optimizers, the step (the position in the data), and what a skipped step repeats."""
        found = {f"{PREFIX}{name}": part for name, part in self.network.state_dict().items()}
        for kind, optimizer in self.optimizers.items():
            found |= {f"adam.{kind}.{name}": value for name, value in optimizer.tensors().items()}
        arrays = {name: part.detach().cpu().numpy().copy() for name, part in found.items()}
        counts = {"step": np.array(self.step), "skipped": np.array(self.skipped), "last": np.array(self.last)}
        return arrays | counts

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from ``tensors`` of a checkpoint."""
        self.step = int(saved["step"])
        self.skipped, self.last = int(saved.get("skipped", 0)), float(saved.get("last", 0.0))  # not in older ones
        load_network(self.network, saved)
        for kind, optimizer in self.optimizers.items():
            start = f"adam.{kind}."
            optimizer.load({name.removeprefix(start): one for name, one in saved.items() if name.startswith(start)})

    def _train_step(self, losses: StepLosses, norm: float) -> TrainStep:
        """Return the numbers of the step. JSON needs finite ones: a skipped step repeats the previous loss."""
        self.last = float(losses.total.detach()) if not self.skipped else self.last
        numbers = {"edit": losses.edit, "locality": losses.locality, "unedited": losses.before}
        return TrainStep(
            step=self.step,
            loss=self.last,
            numbers={name: value if not self.skipped else 0.0 for name, value in numbers.items()}
            | {"gradient": norm, "step_size": self.step_size(), "skipped": float(self.skipped > 0)},
        )


class HypernetworkTrainer(ABC):
    """Trainer of a hypernetwork, which belongs to the weights of one model.

    The options ``locality`` and ``locality_length`` of ``config`` are the other text of the training, an argument of
    ``read_corpus``, and the tokens to use of each document.
    """

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def settings(self, session: Session[HFModel]) -> dict[str, Any]:
        """Return the profile's values for this model as JSON values, with ``maps``, the names of the layers."""

    @abstractmethod
    def training(
        self, session: Session[HFModel], sampler: ExampleSampler, recipe: Mapping[str, Any]
    ) -> HypernetworkTraining[Any]:
        """Return the training before its first step."""

    def place(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return what a network belongs to: the model's weights."""
        return place_of(session)

    def recipe(self, session: Session[HFModel]) -> Mapping[str, Any]:
        """Return the settings, and the identity of the other text."""
        other = {"sha256": read_corpus(self.config.locality).sha256, "length": self.config.locality_length}
        return self.settings(session) | {"locality": other}

    def start(
        self, session: Session[HFModel], examples: Sequence[TrainingExample], saved: Mapping[str, Any] | None
    ) -> HypernetworkTraining[Any]:
        """Start the training, or resume it from ``saved``. Raises BadData for no usable example, or one too long."""
        recipe, model = self.recipe(session), session.model
        found = usable_examples(examples, recipe["wordings"])
        texts = [
            ExampleTexts(name=f"{one.id} ({one.prompt[:60]!r})", target=one.target, prompts=(one.prompt, *one.wordings))
            for one in found
        ]
        check_lengths(texts, model.tokenizer, model.context)
        documents, length = read_corpus(self.config.locality).documents, self.config.locality_length
        sampler = ExampleSampler(found, documents, model.tokenizer, length=length, seed=session.seed)
        training = self.training(session, sampler, recipe)
        if saved is not None:
            training.load(saved)
        return training


def divergence(base: Tensor, now: Tensor, mask: Tensor) -> Tensor:
    """Return KL(base || now) [rows], the mean over a row's tokens; logits [rows, T, V], mask [rows, T]."""
    precise = torch.promote_types(base.dtype, torch.float32)
    old, new = base.to(precise).log_softmax(dim=-1), now.to(precise).log_softmax(dim=-1)
    each = (old.exp() * (old - new)).sum(dim=-1) * mask
    return each.sum(dim=1) / mask.sum(dim=1)


def finite(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether every gradient is finite."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors if tensor is not None)


def _like(array: Any, parameter: nn.Parameter) -> Tensor:
    return torch.from_numpy(np.array(array)).to(parameter.device)
