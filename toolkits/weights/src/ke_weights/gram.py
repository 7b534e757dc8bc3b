"""Sums of k k^T over a text: all layers in one pass, float32 products, a resumable float64 sum.

The pass ends after the highest layer. At intervals, each layer's sum is saved to its own file with its number of
batches. A resumed sum continues from there, with the same bits as an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ke_core.plugin import KEError, Progress
from ke_plugin_hf.adaptors import hidden_in
from ke_plugin_hf.decoding.float64 import home
from ke_plugin_hf.decoding.free import free_bytes
from ke_plugin_hf.decoding.memory import halved
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap
from ke_weights.state_files import load_intact, save_state
from ke_weights.subject import batches, padded

PASS_TOKENS = 4096  # of one forward pass; its float32 product is exact enough, and the sum is float64
SAVE_SECONDS = 60.0  # maximum work that a killed process may lose ...
SAVE_SHARE = 0.1  # ... unless saving takes more than this fraction of the time
ROOM_SHARE = 0.8  # fraction of free memory for sums
SPARE = 2  # matrices in addition to the sums: a product, and the copy that is written


def gram_sums(
    modules: ModuleMap, rows: Sequence[Sequence[int]], files: Mapping[int, Path], progress: Progress
) -> dict[int, Tensor]:
    """Return the sum of k k^T over all tokens of ``rows``, float64 [f, f], for each layer in ``files``.

    ``files``: where each layer's partial sum is saved. The caller deletes them after saving the result.
    """
    plan = batches([len(row) for row in rows], PASS_TOKENS)
    sums, done = {}, {}
    for layer, path in files.items():
        sums[layer], done[layer] = _partial_sum(modules, layer, path)
    label = f"key covariance of {len(files)} layers" if len(files) > 1 else f"key covariance of layer {min(files)}"
    saved_at, cost = time.monotonic(), 0.0
    for at in range(min(done.values()), len(plan)):
        progress.advance(label, at, len(plan))
        pending = {layer: total for layer, total in sums.items() if done[layer] <= at}
        add_products(modules, [rows[row] for row in plan[at]], pending)
        done |= dict.fromkeys(pending, at + 1)
        if at + 1 < len(plan) and time.monotonic() - saved_at >= max(SAVE_SECONDS, cost / SAVE_SHARE):
            began = time.monotonic()
            for layer, path in files.items():
                save_state(path, {"sum": sums[layer]}, {"batches": str(done[layer]), **_format()})
            saved_at = time.monotonic()
            cost = saved_at - began
    progress.advance(label, len(plan), len(plan))
    return sums


def add_products(modules: ModuleMap, rows: Sequence[Sequence[int]], sums: Mapping[int, Tensor]) -> None:
    """Add k k^T of every token of ``rows`` to the sums in place, in halves if memory is insufficient."""
    added = dict.fromkeys(sums, 0)  # number of rows in each sum: a failed pass has added some layers' keys

    def add(places: Sequence[int]) -> None:
        ids, mask = padded([rows[at] for at in places], modules.device)

        def use(layer: int, keys: Tensor) -> None:
            sums[layer].add_((keys.T @ keys).to(sums[layer].device))
            added[layer] = places[-1] + 1

        missing = [layer for layer, count in added.items() if count <= places[0]]
        if missing:
            see_keys(modules, ids, mask, missing, use)

    halved(range(len(rows)), add, "text of the corpus")


def see_keys(
    modules: ModuleMap, ids: Tensor, mask: Tensor, layers: Sequence[int], use: Callable[[int, Tensor], None]
) -> None:
    """Call ``use`` with each layer and its keys [real tokens, f] in float32 or better; end after the highest layer."""
    real = mask.bool()
    with frozen_module(modules.module), Hooks() as hooks:
        for layer in layers:

            def see(args: tuple[Any, ...], kwargs: dict[str, Any], layer: int = layer) -> None:
                # The layers of some families get [tokens, f], of others [rows, T, f].
                keys = hidden_in(args, kwargs).reshape(*real.shape, -1)
                use(layer, keys[real.to(keys.device)].to(modules.dtype))

            hooks.before(modules.layers[layer].projection, see)
        hooks.stop_after(modules.layers[max(layers)].projection)
        forward(modules.module, ids, mask)


def passes(modules: ModuleMap, layers: Sequence[int]) -> list[list[int]]:
    """Group ``layers`` so that the sums of a group fit into memory: one pass over the text each.

    Raises KEError if memory does not fit one layer.
    """
    one = torch.float64.itemsize * modules.inner**2
    places = {layer: home(modules.layers[layer].matrix.device) for layer in layers}
    free = {place: free_bytes(place) for place in set(places.values())}
    most = {place: int(room * ROOM_SHARE) // one - SPARE for place, room in free.items()}
    tight = min(most, key=lambda place: most[place], default=None)
    if tight is not None and most[tight] < 1:
        raise KEError(
            f"a key covariance of {modules.inner} dimensions needs {one * (1 + SPARE) / 1e9:.3g} GB of memory, "
            f"and {free[tight] / 1e9:.3g} GB are free",
            hint="close other programs, or use a smaller model",
        )
    groups: list[list[int]] = []
    for layer in layers:
        used = sum(places[other] == places[layer] for other in groups[-1]) if groups else 0
        if not groups or used >= most[places[layer]]:
            groups.append([])
        groups[-1].append(layer)
    return groups


def _partial_sum(modules: ModuleMap, layer: int, path: Path) -> tuple[Tensor, int]:
    """Return the partial sum of an interrupted pass and its number of batches; else zeros."""
    place = home(modules.layers[layer].matrix.device)
    if found := load_intact(path, place):
        tensors, about = found
        if about.items() >= _format().items():
            return tensors["sum"], int(about["batches"])
    return torch.zeros(modules.inner, modules.inner, dtype=torch.float64, device=place), 0


def _format() -> dict[str, str]:
    """Return what the batches of a sum depend on besides the text."""
    return {"pass_tokens": str(PASS_TOKENS), "ke": version("ke-core")}
