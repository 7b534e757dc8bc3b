"""Causal tracing with one forward pass of the clean and the corrupted rows for every token and layer.

This is the released code's procedure, except for severed curves: there the released code samples new noise for its
second pass, and here both passes have the same noise. It is slow; tests compare ``sweep`` with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap
from ke_weights.trace.runs import Recording, TracePrompt, embedding_of, part_of, probability
from ke_weights.trace.settings import Curve, Part


def naive(modules: ModuleMap, found: Recording, curve: Curve, positions: Iterable[int], window: int) -> Tensor:
    """Probability of the answer for each of ``positions`` and each layer, float64 [positions, n]."""
    return torch.tensor(
        [
            [restored(modules, found, curve, token, layer, window=window) for layer in range(len(modules.layers))]
            for token in positions
        ],
        dtype=torch.float64,
    )


def restored(modules: ModuleMap, found: Recording, curve: Curve, token: int, layer: int, *, window: int) -> float:
    """p(answer), averaged over the corrupted rows, with one intervention: P*_{t,l}."""
    trace_prompt = found.prompt
    ids = trace_prompt.rows(modules.device)
    with frozen_module(modules.module), Hooks() as hooks:
        hooks.change(embedding_of(modules), trace_prompt.corrupt)
        if curve.restored == "states":
            hooks.change(modules.layers[layer].block, _clean(trace_prompt, token))
        else:
            for at in curve.window(layer, len(modules.layers), window):
                hooks.change(part_of(modules.layers[at], curve.restored), _clean(trace_prompt, token))
        if curve.severed:
            _hold(hooks, modules, found, curve.severed, token)
        logits = forward(modules.module, ids, torch.ones_like(ids)).logits
    return float(probability(logits[1:, -1], found.answer, modules.dtype).mean())


def _clean(trace_prompt: TracePrompt, token: int) -> Callable[[Tensor], Tensor]:
    """Replace the value of every corrupted row with the clean row's of the same pass."""

    def make(output: Tensor) -> Tensor:
        states = output.reshape(1 + trace_prompt.samples, len(trace_prompt.ids), -1).clone()
        states[1:, token] = states[0, token]
        return states.reshape(output.shape)

    return make


def _hold(hooks: Hooks, modules: ModuleMap, found: Recording, part: Part, token: int) -> None:
    """Hold one token's outputs of ``part`` at the values of the corrupted run, at every layer."""
    for layer, corrupted in zip(modules.layers, found.outputs[part], strict=True):

        def make(output: Tensor, corrupted: Tensor = corrupted) -> Tensor:
            states = output.reshape(corrupted.shape).clone()
            states[1:, token] = corrupted[1:, token]
            return states.reshape(output.shape)

        hooks.change(part_of(layer, part), make)
