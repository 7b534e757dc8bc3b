"""Training of one of the two networks: its optimizer, validations, and early stopping. Saved bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor, nn
from torch.optim import Adam

from ke_plugin_pokemqa.profiles import Schedule

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class Learner:
    """Trains one network. ``things``: items per epoch (pairs or records). ``best``: the weights that validated best.

    ``step``: steps made, ``best_step``: steps of ``best``. ``merit``: score of the last validation.
    """

    def __init__(self, name: str, module: nn.Module, schedule: Schedule, things: int) -> None:
        self.name, self.module, self.schedule = name, module, schedule
        self.batch = min(schedule.batch, things)
        self.epoch_steps = things // self.batch
        self.step = self.since_best = 0
        self.loss = self.merit = 0.0
        self.highest = -math.inf
        self.stopped = False
        self.parameters = dict(module.named_parameters())
        self.adam = Adam(self.parameters.values(), lr=schedule.lr)
        self.best, self.best_step = self._weights(), 0
        self._validated_at, self._now_is_better = 0, False  # step of the last validation, and whether it is the best

    @property
    def place(self) -> tuple[int, int]:
        """The next epoch, and the next batch in it."""
        return divmod(self.step, self.epoch_steps)

    def advance(self, loss_of: Callable[[], Tensor], merit_of: Callable[[], float], *, seed: int) -> None:
        """Validate if it is due (first before any training), then make one step.

        Dropout depends on the seed and the number of the step.
        """
        epoch, batch = self.place
        if not self.stopped and batch == 0 and epoch % self.schedule.validate == 0:
            self._validate(merit_of)
            self.stopped = self.since_best >= self.schedule.patience or epoch >= self.schedule.epochs
        if self.stopped:
            return
        with torch.random.fork_rng(), torch.enable_grad():
            torch.manual_seed(int(np.random.SeedSequence([seed, self.step]).generate_state(1)[0]))
            self.module.train()
            loss = loss_of()
            self.adam.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own
            self.adam.step()
        self.step += 1
        self.loss = float(loss.detach())

    def tensors(self, merit_of: Callable[[], float]) -> dict[str, Any]:
        """Return the complete state as NumPy arrays by name.

        The weights since the last validation are validated first, so that a training can end at any step with its best
        weights. This only determines which weights are ``kept``: the training continues as if there had been no
        checkpoint.
        """
        if self.step != self._validated_at:
            self._validated_at, self._now_is_better = self.step, self._merit(merit_of) > self.highest
        found: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            found[f"{self.name}.now.{name}"] = parameter
            found[f"{self.name}.best.{name}"] = self.best[name]
            found |= {f"{self.name}.{kind}.{name}": value for kind, value in self.adam.state[parameter].items()}
        numbers = [self.step, self.since_best, self.loss, self.merit, self.highest, self.stopped]
        arrays = {name: tensor.detach().cpu().numpy().copy() for name, tensor in found.items()}
        return arrays | {
            f"{self.name}.numbers": np.array(numbers, dtype=np.float64),
            f"{self.name}.kept": np.array([self.best_step, self._now_is_better]),
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Resume from the result of ``tensors``."""
        step, since_best, self.loss, self.merit, self.highest, stopped = saved[f"{self.name}.numbers"].tolist()
        self.step, self.since_best, self.stopped = int(step), int(since_best), bool(stopped)
        self.best_step, better = _kept(saved, self.name)
        self._validated_at, self._now_is_better = self.step, bool(better)
        load_weights(self.module, saved, f"{self.name}.now.")
        for name, parameter in self.parameters.items():
            self.best[name] = torch.from_numpy(saved[f"{self.name}.best.{name}"].copy()).to(parameter.device)
            kept = {kind: f"{self.name}.{kind}.{name}" for kind in MOMENTS if f"{self.name}.{kind}.{name}" in saved}
            for kind, where in kept.items():
                value = torch.from_numpy(np.array(saved[where]))
                self.adam.state[parameter][kind] = value if kind == "step" else value.to(parameter.device)

    def _validate(self, merit_of: Callable[[], float]) -> None:
        self.merit = self._merit(merit_of)
        self._validated_at, self._now_is_better = self.step, False  # if it is better, it is stored in ``best``
        if self.merit > self.highest:
            self.highest, self.since_best, self.best, self.best_step = self.merit, 0, self._weights(), self.step
        else:
            self.since_best += 1

    def _merit(self, merit_of: Callable[[], float]) -> float:
        self.module.eval()
        with torch.no_grad():
            return merit_of()

    def _weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}


def load_weights(module: nn.Module, saved: Mapping[str, Any], prefix: str) -> None:
    """Copy the arrays whose names begin with ``prefix`` into the parameters of that name."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(np.array(saved[prefix + name])))


@frozen(kw_only=True)
class NetworkWeights:
    """The weights that an editor uses: the prefix of their names, and their number of steps.

    ``stopped``: the training has finished.
    """

    prefix: str
    step: int
    stopped: bool


def kept(saved: Mapping[str, Any], name: str) -> NetworkWeights:
    """Return the weights to use of the network ``name``: the last ones if they validated best, else the best ones."""
    numbers = saved[f"{name}.numbers"].tolist()
    step, better = _kept(saved, name)
    prefix, step = (f"{name}.now.", int(numbers[0])) if better else (f"{name}.best.", step)
    return NetworkWeights(prefix=prefix, step=step, stopped=bool(numbers[-1]))


def _kept(saved: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Return the step of the best weights, and whether the last ones are better."""
    step, better = saved[f"{name}.kept"]
    return int(step), int(better)
