"""Sums of k k^T over a text: all layers in one pass, float32 products, a float64 sum that survives being killed.

The pass ends after the highest layer. Every so often each layer's sum so far goes to a file of its own, with the
number of batches in it; a sum that is taken up again goes on there, and ends with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from attrs import define, field
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ke_core.plugin import KEError, Progress, uninterruptible
from ke_plugin_hf.decoding.float64 import home
from ke_plugin_hf.decoding.free import free_bytes
from ke_plugin_hf.decoding.memory import halved
from ke_plugin_hf.tensor_files import is_intact, write_tensors
from ke_weights.hooks import Hooks, forward, frozen_module, hidden_in
from ke_weights.modules import ModuleMap
from ke_weights.subject import batches, padded

PASS_TOKENS = 4096  # of one forward pass: a float32 product over so few is exact enough, their sum is float64
SAVE_SECONDS = 60.0  # of work that a killed process may lose ...
SAVE_SHARE = 0.1  # ... or more, where writing would take more than this share of the time
ROOM_SHARE = 0.8  # of free memory that sums may fill
SPARE = 2  # matrices beside the sums: a product, and the copy that is written


def gram_sums(
    modules: ModuleMap, rows: Sequence[Sequence[int]], files: Mapping[int, Path], progress: Progress
) -> dict[int, Tensor]:
    """Sum of k k^T over all tokens of ``rows``, float64 [f, f], of each layer in ``files``.

    ``files`` says where each layer's sum so far is kept; the caller deletes them when the result is safe.
    """
    plan = batches([len(row) for row in rows], PASS_TOKENS)
    sums, done = {}, {}
    for layer, path in files.items():
        sums[layer], done[layer] = _begun(modules, layer, path)
    label = f"key covariance of {len(files)} layers" if len(files) > 1 else f"key covariance of layer {min(files)}"
    saver = _Saver()
    for at in range(min(done.values()), len(plan)):
        progress.advance(label, at, len(plan))
        behind = {layer: total for layer, total in sums.items() if done[layer] <= at}
        add_products(modules, [rows[row] for row in plan[at]], behind)
        done |= dict.fromkeys(behind, at + 1)
        if at + 1 < len(plan) and saver.due():
            saver.save(sums, done, files)
    progress.advance(label, len(plan), len(plan))
    return sums


def add_products(modules: ModuleMap, rows: Sequence[Sequence[int]], sums: Mapping[int, Tensor]) -> None:
    """Add k k^T of every token of ``rows`` to the sums, in place; in halves where memory does not hold one pass."""
    added = dict.fromkeys(sums, 0)  # how many of the rows each sum has: a pass that fails has added some layers' keys

    def add(places: Sequence[int]) -> None:
        ids, mask = padded([rows[at] for at in places], modules.device)

        def use(layer: int, keys: Tensor) -> None:
            sums[layer].add_((keys.T @ keys).to(sums[layer].device))
            added[layer] = places[-1] + 1

        behind = [layer for layer, count in added.items() if count <= places[0]]
        if behind:
            see_keys(modules, ids, mask, behind, use)

    halved(range(len(rows)), add, "text of the corpus")


def see_keys(
    modules: ModuleMap, ids: Tensor, mask: Tensor, layers: Sequence[int], use: Callable[[int, Tensor], None]
) -> None:
    """Call ``use`` with each layer and its keys [real tokens, f] in float32 or better; end after the highest layer."""
    real = mask.bool()
    with frozen_module(modules.module), Hooks() as hooks:
        for layer in layers:

            def see(args: tuple[Any, ...], kwargs: dict[str, Any], layer: int = layer) -> None:
                # The maps of some families see [tokens, f], of others [rows, T, f].
                keys = hidden_in(args, kwargs).reshape(*real.shape, -1)
                use(layer, keys[real.to(keys.device)].to(modules.dtype))

            hooks.before(modules.layers[layer].projection, see)
        hooks.stop_after(modules.layers[max(layers)].projection)
        forward(modules.module, ids, mask)


def passes(modules: ModuleMap, layers: Sequence[int]) -> list[list[int]]:
    """``layers`` in groups whose sums fit into memory together: one pass over the text each.

    Raises KEError where memory does not hold one layer's.
    """
    one = torch.float64.itemsize * modules.inner**2
    places = {layer: home(modules.layers[layer].matrix.device) for layer in layers}
    free = {place: free_bytes(place) for place in set(places.values())}
    most = {place: int(room * ROOM_SHARE) // one - SPARE for place, room in free.items()}
    tight = min(most, key=lambda place: most[place], default=None)
    if tight is not None and most[tight] < 1:
        raise KEError(
            f"second moments of {modules.inner} dimensions need {one * (1 + SPARE) / 1e9:.3g} GB of memory, "
            f"and {free[tight] / 1e9:.3g} GB are free",
            hint="end other programs, or take a smaller model",
        )
    groups: list[list[int]] = []
    for layer in layers:
        beside = sum(places[other] == places[layer] for other in groups[-1]) if groups else 0
        if not groups or beside >= most[places[layer]]:
            groups.append([])
        groups[-1].append(layer)
    return groups


@uninterruptible  # torch turns an interrupt of get_tensor into a ValueError
def _begun(modules: ModuleMap, layer: int, path: Path) -> tuple[Tensor, int]:
    """The sum that an interrupted pass has left, and how many batches are in it; else zeros."""
    place = home(modules.layers[layer].matrix.device)
    if is_intact(path):
        with safe_open(path, framework="pt") as found:
            told = found.metadata()
            if {name: told.get(name) for name in _format()} == _format():
                return found.get_tensor("sum").to(place, copy=True), int(told["batches"])
    return torch.zeros(modules.inner, modules.inner, dtype=torch.float64, device=place), 0


def _format() -> dict[str, str]:
    """What the batches of a sum depend on beside the text."""
    return {"pass_tokens": str(PASS_TOKENS), "ke": version("ke-core")}


@define
class _Saver:
    """Writes sums when enough work would be lost, and not so often that writing becomes the work."""

    _last: float = field(factory=time.monotonic, init=False)
    _cost: float = field(default=0.0, init=False)

    def due(self) -> bool:
        return time.monotonic() - self._last >= max(SAVE_SECONDS, self._cost / SAVE_SHARE)

    def save(self, sums: Mapping[int, Tensor], done: Mapping[int, int], files: Mapping[int, Path]) -> None:
        began = time.monotonic()
        for layer, path in files.items():
            told = {"batches": str(done[layer]), **_format()}
            write_tensors(path, {"sum": sums[layer].cpu()}, told, save_file)
        self._last = time.monotonic()
        self._cost = self._last - began
