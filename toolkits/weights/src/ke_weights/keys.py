"""Keys and hidden states at the subject's last token on the current model, including edits of lower layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_plugin_hf.adaptors import hidden_in
from ke_plugin_hf.decoding.float64 import double
from ke_weights.corpus import read_corpus
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap
from ke_weights.rewrites import Rewrite
from ke_weights.subject import SubjectTokens, batches, encode, padded
from ke_weights.templates import BARE

PASS_TOKENS = 4096
PROBE_TOKENS = 32


@frozen(kw_only=True)
class KeyRows:
    """The bare prompt of each edit, and its prompt after every other template; all end at the subject.

    Later tokens cannot change the key of a subject.
    """

    bare: tuple[SubjectTokens, ...]
    contexts: tuple[tuple[SubjectTokens, ...], ...]

    def of(self, edits: Sequence[int]) -> KeyRows:
        """Return the rows of ``edits``, given by their places."""
        return KeyRows(bare=tuple(self.bare[at] for at in edits), contexts=tuple(self.contexts[at] for at in edits))


def key_rows(tokenizer: Any, rewrites: Sequence[Rewrite], templates: Sequence[str]) -> KeyRows:
    """Return the rows of ``rewrites``; ``templates`` with or without the bare one."""
    others = [template for template in templates if template != BARE]
    return KeyRows(
        bare=tuple(rewrite.row(tokenizer).to_subject for rewrite in rewrites),
        contexts=tuple(tuple(rewrite.row(tokenizer, t).to_subject for t in others) for rewrite in rewrites),
    )


def average_keys(modules: ModuleMap, rows: KeyRows, layer: int, *, uniform: bool = False) -> Tensor:
    """Return keys K of ``layer``, [f, N], averaged over left contexts.

    MEMIT's published average is the mean of two means, of the bare prompt and of the contexts (so the bare prompt has
    weight 1/2); ROME's is ``uniform`` over all.
    """
    bare = bare_keys(modules, rows, layer).T
    flat = [row for group in rows.contexts for row in group]
    if not flat:
        return bare.T
    contexts = _at_subject(modules, flat, modules.layers[layer].projection, inputs=True)
    contexts = contexts.reshape(len(rows.bare), -1, modules.inner)
    if uniform:
        return torch.cat([bare[:, None], contexts], dim=1).mean(1).T
    return ((bare + contexts.mean(1)) / 2).T


def bare_keys(modules: ModuleMap, rows: KeyRows, layer: int) -> Tensor:
    """Return keys of the bare prompts, [f, N]."""
    return _at_subject(modules, rows.bare, modules.layers[layer].projection, inputs=True).T


def bare_values(modules: ModuleMap, rows: KeyRows, layer: int) -> Tensor:
    """Return the output of the edited projection of ``layer`` for the bare prompts, including bias, [d, N]."""
    return _at_subject(modules, rows.bare, modules.layers[layer].projection, inputs=False).T


def project(modules: ModuleMap, layer: int, key: Tensor) -> Tensor:
    """Return the output of the edited projection of ``layer`` for any key [f], including bias: [d], float64."""
    place = modules.layers[layer]
    value = double(place.matrix) @ double(key)
    bias = getattr(place.projection, "bias", None)
    return value if bias is None else value + double(bias.detach())


def subject_states(modules: ModuleMap, rows: KeyRows, layer: int) -> Tensor:
    """Return the output of block ``layer`` at the subject's last token of the bare prompts, [d, N]."""
    return _at_subject(modules, rows.bare, modules.layers[layer].block, inputs=False).T


def state_rms(modules: ModuleMap, tokenizer: Any, layer: int) -> float:
    """Return the root mean square of an element of block ``layer``'s output: the model's scale there.

    It is the median over tokens of the default corpus except the first, whose state is far larger in many models. Two
    digits, so that it is equal on every machine.
    """
    sizes = typical_states(modules, tokenizer, modules.layers[layer].block, inputs=False).pow(2).mean(1).sqrt()
    return float(f"{float(sizes.median()):.2g}")


def typical_states(modules: ModuleMap, tokenizer: Any, at: nn.Module, *, inputs: bool) -> Tensor:
    """Return input or output of the module ``at`` at tokens of the default corpus except the first, [tokens, width]."""
    ids = encode(tokenizer, read_corpus().documents[0])[0][:PROBE_TOKENS]
    ((_rows, states),) = _passes(modules, [ids], at, inputs=inputs)
    return states[0, 1:].to(modules.dtype)


def mlp_states(modules: ModuleMap, rows: Sequence[SubjectTokens], layer: int) -> Tensor:
    """Return the output of the MLP of ``layer`` at each row's subject, [rows, d]."""
    return _at_subject(modules, rows, modules.layers[layer].mlp, inputs=False)


def module_outputs(modules: ModuleMap, rows: Sequence[SubjectTokens], name: str) -> Tensor:
    """Return the output of the module ``name`` at each row's index, [rows, width]."""
    return _at_subject(modules, rows, modules.module.get_submodule(name), inputs=False)


def attention_states(modules: ModuleMap, rows: Sequence[SubjectTokens], layer: int) -> Tensor:
    """Return the output of the attention of ``layer`` at each row's subject, [rows, d]."""
    return _at_subject(modules, rows, modules.layers[layer].attention_out, inputs=False)


def row_keys(modules: ModuleMap, rows: Sequence[Sequence[int]], layer: int) -> list[Tensor]:
    """Return keys of ``layer`` at every token of each row of ids, [f, T]."""
    found: dict[int, Tensor] = {}
    for batch, states in _passes(modules, rows, modules.layers[layer].projection, inputs=True):
        for number, row in enumerate(batch):
            found[row] = states[number, : len(rows[row])].T.to(modules.dtype)
    return [found[n] for n in range(len(rows))]


def _at_subject(modules: ModuleMap, rows: Sequence[SubjectTokens], at: nn.Module, *, inputs: bool) -> Tensor:
    """Return input or output of the module ``at`` at each row's index, [rows, width]."""
    found: dict[int, Tensor] = {}
    for batch, states in _passes(modules, [row.ids for row in rows], at, inputs=inputs):
        index = torch.tensor([rows[n].index for n in batch], device=states.device)
        picked = states[torch.arange(len(batch), device=states.device), index]
        found.update(zip(batch, picked.to(modules.dtype), strict=True))
    return torch.stack([found[n] for n in range(len(rows))])


def _passes(
    modules: ModuleMap, rows: Sequence[Sequence[int]], at: nn.Module, *, inputs: bool
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield batches of rows with input or output of the module ``at``, [rows, T, width]; passes end there."""
    for batch in batches([len(row) for row in rows], PASS_TOKENS):
        ids, mask = padded([rows[n] for n in batch], modules.device)
        seen: list[Tensor] = []
        with frozen_module(modules.module), Hooks() as hooks:
            if inputs:
                hooks.before(at, lambda args, kwargs, seen=seen: seen.append(hidden_in(args, kwargs)))  # type: ignore[misc]
            else:
                hooks.after(at, seen.append)
            hooks.stop_after(at)
            forward(modules.module, ids, mask)
        yield batch, seen[0].reshape(*ids.shape, -1)
