"""The file of an edited model: its changed weights, and the statistics that later turns continue."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_core.plugin import BadData, loads, uninterruptible_context
from ke_plugin_ultraedit.normalizer import RunningStatistics
from ke_plugin_ultraedit.turns import Statistics
from ke_weights.plugin import AS_SAVED, Dense, Patch, double, home, load_state, map_orientation, save_state

ROUNDS = 4  # sums that reach a weight exactly: each one leaves only the rounding of the one before


@frozen(kw_only=True, eq=False)
class SavedTurns:
    """The weights [out, in] by the name of their linear map, the statistics, and the number of edits and of turns."""

    weights: Mapping[str, Tensor]
    statistics: Statistics
    edits: int
    turns: int


def save_turns(path: Path, saved: SavedTurns) -> None:
    """Write ``saved`` to a safetensors file with a checksum."""
    tensors = {f"weight:{name}": tensor for name, tensor in saved.weights.items()}
    for shape, found in saved.statistics.items():
        tensors |= {f"mean:{shape}": found.mean, f"squares:{shape}": found.squares}
    counts = {shape: found.count for shape, found in saved.statistics.items()}
    save_state(path, tensors, {"counts": json.dumps(counts), "edits": str(saved.edits), "turns": str(saved.turns)})


def load_turns(path: Path, module: nn.Module, names: Sequence[str], device: torch.device) -> SavedTurns:
    """Read a file of ``save_turns``. Raises BadData if it is damaged, or has other linear maps than ``names``."""
    tensors, about = load_state(path, home(device))
    weights = {name.removeprefix("weight:"): one for name, one in tensors.items() if name.startswith("weight:")}
    if sorted(weights) != sorted(names):
        raise BadData(f"{path} has other linear maps than this editor changes", hint=AS_SAVED)
    for name in names:
        now = weight_of(module, name)
        if weights[name].shape != now.shape or weights[name].dtype != now.dtype:
            raise BadData(f"{path} has another shape or dtype of {name} than the model", hint=AS_SAVED)
    counts = loads(about["counts"])
    return SavedTurns(
        weights=weights,
        statistics={
            shape: RunningStatistics(count=count, mean=tensors[f"mean:{shape}"], squares=tensors[f"squares:{shape}"])
            for shape, count in counts.items()
        },
        edits=int(about["edits"]),
        turns=int(about["turns"]),
    )


def weight_of(module: nn.Module, name: str) -> Tensor:
    """Return the weight of a linear map as [out, in], without a copy."""
    owner = module.get_submodule(name)
    return map_orientation(owner, owner.get_parameter("weight").detach())


@uninterruptible_context
def weights_restored_on_error(weights: Patch, module: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Undo what the block adds to the weights of these linear maps if it raises, bit for bit."""
    before, count = {name: weight_of(module, name).clone() for name in names}, len(weights.made)
    try:
        yield
    except BaseException:
        for name, weight in before.items():
            weight_of(module, name).copy_(weight)
        del weights.made[count:]
        raise


def set_weight(weights: Patch, module: nn.Module, name: str, wanted: Tensor) -> None:
    """Make the weight of a linear map equal to ``wanted`` [out, in], bit for bit.

    A sum of a weight and a difference rounds, so it is repeated until nothing is left.
    """
    for _round in range(ROUNDS):
        now = weight_of(module, name)
        target = wanted.to(now.device)
        if torch.equal(now, target):
            return
        weights.add(f"{name}.weight", Dense(delta=double(target) - double(now)))
    if not torch.equal(weight_of(module, name), wanted.to(weight_of(module, name).device)):
        raise BadData(f"the saved weight of {name} cannot be reached from this model's", hint=AS_SAVED)
