"""Updates that are spread over layers (MEMIT algorithm 1), and the writing of one layer's update."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import Delta, Dense, LowRank
from ke_weights.edit_targets import EditTargets
from ke_weights.keys import KeyRows, average_keys, bare_values, subject_states
from ke_weights.modules import ModuleMap
from ke_weights.offset_rows import Site
from ke_weights.rewrites import Rewrite

Solve = Callable[[int, Tensor, Tensor], LowRank]
"""(layer, keys [f, N], residual [d, N]) to the update of that layer, [d, f]."""


class WeightWriter(Protocol):
    """Adds updates to parameters: a ``Patch``, or one behind update wrappers."""

    def add(self, name: str, delta: Delta) -> None:
        """Add ``delta`` to the parameter called ``name``."""

    def relative_norm(self, name: str) -> float | None:
        """Return the relative change of the parameter so far, as ``Patch.relative_norm`` does."""


def spread_over_layers(
    weights: WeightWriter,
    modules: ModuleMap,
    targets: EditTargets,
    layers: Sequence[int],
    solve: Solve,
    *,
    site: Site = "block",
    divisor: Callable[[int], float] = float,
) -> tuple[dict[str, float], Tensor]:
    """Write the targets into ``layers``, ascending (MEMIT algorithm 1).

    ::

        for l in layers:  k_i = key at l, on the model with the layers below l edited
                          r_i = (z_i - h_i) / divisor(number of layers from l to the last)
                          W_l += solve(l, K, R)

    h_i is the current state at the last of the layers, at ``site``. Return each update's norm relative to its weight,
    and z - h after the updates, float64 [d, N]. Raises EditFailed if a number is not finite.
    """
    z, top = targets.z, layers[-1]
    norms: dict[str, float] = {}
    for place, layer in enumerate(layers):
        keys = average_keys(modules, targets.rows, layer)
        now = site_states(modules, targets.rows, top, site)
        residual = ((z.to(now.device) - now) / divisor(len(layers) - place)).to(double(keys).device)
        must_be_finite(targets.rewrites, layer, keys, residual)
        update = solve(layer, keys, residual)
        targets.record(layer, keys, residual, update)
        norms[str(layer)] = write(weights, modules, layer, update)
    now = site_states(modules, targets.rows, top, site)
    return norms, z.to(now.device) - now


def site_states(modules: ModuleMap, rows: KeyRows, layer: int, site: Site) -> Tensor:
    """Return the states that targets of ``site`` are compared with, float64 [d, N]."""
    return double((subject_states if site == "block" else bare_values)(modules, rows, layer))


def must_be_finite(rewrites: Sequence[Rewrite], layer: int, keys: Tensor, residual: Tensor) -> None:
    """Raise EditFailed, which names the first edit whose key or residual (columns) contains NaN or infinity."""
    fine = keys.isfinite().all(0).to(residual.device) & residual.isfinite().all(0)
    if not bool(fine.all()):
        name = rewrites[int((~fine).nonzero()[0, 0])].id
        raise EditFailed(
            f"the key or the residual of edit {name!r} at layer {layer} contains NaN or infinity",
            hint="load the model with --dtype float32",
        )


def write(weights: WeightWriter, modules: ModuleMap, layer: int, update: Delta) -> float:
    """Add one layer's update. Return its Frobenius norm relative to the weight's.

    Raises EditFailed if that is not finite. An update larger than the weight is added, with a warning in the
    record: runs measure how many edits a model can hold.
    """
    place = modules.layers[layer]
    size = float(double(place.matrix).norm())
    relative = frobenius(update) / size if size else float("inf")
    if not math.isfinite(relative):
        raise EditFailed(
            f"the update of {place.weight_name} is {relative} times as large as the weight",
            hint="load the model with --dtype float32, or lower the option clamp",
        )
    weights.add(place.weight_name, update)
    return relative


def summed(one: Delta | None, other: Delta) -> Delta:
    """Return the sum of two updates of one layer; low-rank if both are. None is zero."""
    if one is None:
        return other
    if isinstance(one, LowRank) and isinstance(other, LowRank):
        return LowRank(left=torch.cat([one.left, other.left], dim=1), right=torch.cat([one.right, other.right]))
    return Dense(delta=dense(one) + dense(other))


def dense(update: Delta) -> Tensor:
    """Return an update as one float64 tensor, [d, f]."""
    if isinstance(update, Dense):
        return double(update.delta)
    return double(update.left) @ double(update.right)


def frobenius(update: Delta) -> float:
    """Return the norm of an update; of left right without the product: its square is tr(left^T left right right^T)."""
    if isinstance(update, Dense):
        return float(double(update.delta).norm())
    left, right = double(update.left), double(update.right)
    return float(((left.T @ left) * (right @ right.T)).sum().clamp(min=0).sqrt())
