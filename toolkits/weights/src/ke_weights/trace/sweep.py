"""The effect of every intervention on a fact: interventions on one token are rows of the same forward passes.

An intervention restores one token's outputs to their clean values in the corrupted run. Tokens before the restored one
never change, so the passes continue from their keys and values in the corrupted run. Restoring a token before the
subject changes nothing, because its outputs are equal in both runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import torch
from torch import Tensor

from ke_plugin_hf.decoding.float64 import double
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap
from ke_weights.tail import accepts, continued_pass
from ke_weights.trace.runs import Recording, embedding_of, module_of, probability
from ke_weights.trace.settings import Curve, Restored

PASS_TOKENS = 4096
AGREE = 1e-4  # maximum error of a continued pass, relative to the clean probability, in float32
ROUNDING = 16  # the same in roundings of the model's dtype
KINDS: tuple[Restored, ...] = get_args(Restored)
Intervention = tuple[Curve, int]
"""A curve and the layer of the restored output (or of the middle of the window)."""


def sweep(
    modules: ModuleMap, found: Recording, curves: Sequence[Curve], positions: Iterable[int], window: int
) -> dict[Curve, Tensor]:
    """Return the probability of the answer by curve, position and layer, float64 [positions, n] per curve."""
    places, blocks = list(positions), len(modules.layers)
    tables = {curve: torch.full((len(places), blocks), found.low, dtype=torch.float64) for curve in curves}
    every = [(curve, layer) for curve in curves for layer in range(blocks)]
    for row, token in enumerate(places):
        if token < found.prompt.subject[0]:
            continue
        width = len(found.prompt.ids) - _first(found, token)
        size = max(1, PASS_TOKENS // (found.prompt.samples * width))
        for start in range(0, len(every), size):
            batch = every[start : start + size]
            for (curve, layer), value in zip(batch, _run(modules, found, batch, token, window), strict=True):
                tables[curve][row, layer] = value
    return tables


def can_continue(modules: ModuleMap, found: Recording) -> bool:
    """Return whether a pass that continues from kept keys and values gives this model's own result.

    It restores the last block's output at the subject's last token, which changes nothing before the last token.
    """
    token, last = found.prompt.subject[1] - 1, len(modules.layers) - 1
    (value,) = _run(modules, found, [(Curve("states"), last)], token, 1)
    expected = found.high if token == len(found.prompt.ids) - 1 else found.low
    tolerance = max(AGREE, ROUNDING * torch.finfo(found.embeddings.dtype).eps)
    return abs(value - expected) <= tolerance * found.high


def _first(found: Recording, token: int) -> int:
    """Return the first computed position."""
    return token if found.cache is not None else 0


def _run(modules: ModuleMap, found: Recording, entries: Sequence[Intervention], token: int, window: int) -> list[float]:
    """Return p(answer) of each intervention at ``token``, averaged over the samples."""
    first, samples = _first(found, token), found.prompt.samples
    whole = found.prompt.rows(modules.device)[:1].expand(len(entries) * samples, -1)
    more: dict[str, Any] = {"logits_to_keep": 1} if accepts(modules, "logits_to_keep") else {}
    if first:
        assert found.cache is not None
        more |= continued_pass(found.cache, first, whole)
    corrupted = found.embeddings[1:, first:].repeat(len(entries), 1, 1)
    with frozen_module(modules.module), Hooks() as hooks:
        hooks.change(embedding_of(modules), corrupted.to)
        for at, layer in enumerate(modules.layers):
            for kind in KINDS:
                rows, values = _forced(found, kind, at, entries, token, window)
                if values:
                    hooks.change(module_of(layer, kind), _setter(len(whole), rows, torch.cat(values), token - first))
        logits = forward(modules.module, whole[:, first:], torch.ones_like(whole), **more).logits[:, -1]
    rows_of = double(probability(logits, found.answer, modules.dtype)).reshape(len(entries), -1)
    means: list[float] = rows_of.mean(1).tolist()
    return means


def _forced(
    found: Recording, kind: Restored, at: int, entries: Sequence[Intervention], token: int, window: int
) -> tuple[list[int], list[Tensor]]:
    """Return the rows whose output of ``kind`` in block ``at`` is replaced, and the values, [samples, d] per entry."""
    blocks, samples = len(found.outputs[kind]), found.prompt.samples
    states = found.outputs[kind][at][:, token]
    rows: list[int] = []
    values: list[Tensor] = []
    for index, (curve, layer) in enumerate(entries):
        restored = curve.restored == kind and at in curve.window(layer, blocks, window)
        if restored or curve.severed == kind:
            rows += range(index * samples, (index + 1) * samples)
            values.append(states[:1].expand(samples, -1) if restored else states[1:])
    return rows, values


def _setter(count: int, rows: Sequence[int], values: Tensor, column: int) -> Callable[[Tensor], Tensor]:
    """Replace the output of ``rows`` at one column; some families' layers return [tokens, d], others [rows, T, d]."""

    def make(output: Tensor) -> Tensor:
        states = output.reshape(count, -1, output.shape[-1]).clone()
        states[torch.tensor(rows, device=states.device), column] = values.to(states)
        return states.reshape(output.shape)

    return make
