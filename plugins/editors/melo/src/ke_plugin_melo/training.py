"""Training of a LoRA block: it acts on every row and token, as in a row that the router sends to it.

::

    L(A, B) = mean over all target tokens of the batch of -log p(token | prompt, earlier target tokens)
    A_0 uniform in +- 1 / sqrt(R), with R the total rank; B_0 = 0;  Adam, whose rate is halved every 20 steps
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_plugin_melo.layers import low_rank
from ke_weights.plugin import (
    Hooks,
    ModuleMap,
    Rewrite,
    TrainingRows,
    derived_seed,
    frozen_module,
    map_orientation,
    prompt_lengths,
    require_finite,
    training_rows,
)

HALVED = 20
"""Steps after which the learning rate is halved, as published."""

Factors = tuple[Tensor, Tensor]
"""``A`` [r, in] and ``B`` [out, r] of a block in one layer."""


@frozen(kw_only=True, eq=False)
class BlockTraining:
    """The layers with LoRA blocks: names, and the first block of the model that has one; and the hyperparameters."""

    modules: ModuleMap
    names: tuple[str, ...]
    first: int
    rank: int
    total_rank: int
    steps: int
    lr: float
    stop_loss: float

    @property
    def scale(self) -> Tensor:
        """The factor s^2 of a block's product: both factors are scaled by s = sqrt(total rank / rank)."""
        return torch.tensor(self.total_rank / self.rank, dtype=self.modules.dtype)

    def device(self, name: str) -> torch.device:
        """Return the device of the layer ``name``: a model may be on several devices."""
        return self.modules.module.get_submodule(name).get_parameter("weight").device

    def sizes(self, name: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the shapes of A and B in the layer ``name``."""
        module = self.modules.module.get_submodule(name)
        rows, columns = map_orientation(module, module.get_parameter("weight").detach()).shape
        return (self.rank, columns), (rows, self.rank)


@frozen(kw_only=True, eq=False)
class TrainedBlock:
    """The factors by layer, and the loss of each edit with the first and with the last factors."""

    factors: Mapping[str, Factors]
    before: tuple[float, ...]
    after: tuple[float, ...]


def first_factors(how: BlockTraining, seed: int, block: int) -> dict[str, Factors]:
    """Return the factors before training. They depend on the seed, the layer and the number of the block only."""
    found = {}
    for name in how.names:
        generator = torch.Generator().manual_seed(derived_seed(seed=seed, block=block, layer=name))
        down, up = how.sizes(name)
        noise = torch.rand(*down, generator=generator, dtype=torch.float32) * 2 - 1
        device = how.device(name)
        first = (noise / how.total_rank**0.5).to(device, how.modules.dtype)
        found[name] = (first, torch.zeros(*up, dtype=first.dtype, device=device))
    return found


def train_block(
    how: BlockTraining,
    edits: Sequence[Rewrite],
    tokens: Sequence[tuple[Sequence[int], Sequence[int]]],
    start: Mapping[str, Factors],
    *,
    whole: bool,
) -> TrainedBlock:
    """Return the block of ``edits``, given as ``tokens`` of prompt and target, trained from ``start``.

    ``whole``: run the whole model in each step. Raises EditFailed if a loss is not finite.
    """
    rows = training_rows(how.modules, tokens, how.first, whole=whole)
    factors = {name: (down.clone(), up.clone()) for name, (down, up) in start.items()}
    weights = [one for pair in factors.values() for one in pair]
    lengths = torch.tensor([len(target) for _prompt, target in tokens])
    adam = torch.optim.Adam(weights, lr=how.lr)
    rate = torch.optim.lr_scheduler.StepLR(adam, HALVED, 0.5)
    before: tuple[float, ...] = ()
    prompts = [len(prompt) for prompt, _target in tokens]
    with frozen_module(how.modules.module), prompt_lengths(prompts), Hooks() as hooks:
        for name, (down, up) in factors.items():
            hooks.add(how.modules.module.get_submodule(name), _adding(down, up, how.scale))
        with torch.enable_grad():
            for weight in weights:
                weight.requires_grad = True
            for _step in range(how.steps):
                losses = _losses(rows, edits)
                before = before or tuple(losses.tolist())
                loss = (losses * lengths.to(losses)).sum() / lengths.sum()
                if float(loss.detach()) < how.stop_loss:
                    break
                adam.zero_grad()
                loss.backward(inputs=weights)  # type: ignore[no-untyped-call]  # untyped in torch
                adam.step()
                rate.step()
        after = tuple(_losses(rows, edits).tolist())
    detached = {name: (down.detach(), up.detach()) for name, (down, up) in factors.items()}
    return TrainedBlock(factors=detached, before=before, after=after)


def _losses(rows: TrainingRows, edits: Sequence[Rewrite]) -> Tensor:
    found = rows.scored.nll(rows.logits())
    require_finite(found, [edit.id for edit in edits], "while its LoRA block is trained")
    return found


def _adding(down: Tensor, up: Tensor, scale: Tensor) -> Callable[[nn.Module, tuple[Any, ...], Tensor], Tensor]:
    """Return a hook that adds the block's product in every row."""

    def hook(_module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        return (output + low_rank(args[0], down, up, scale.to(down.device))).to(output.dtype)

    return hook
