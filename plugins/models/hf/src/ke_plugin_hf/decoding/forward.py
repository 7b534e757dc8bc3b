"""Forward passes over rows of unequal length: what is fed, what is masked, which keys and values are kept.

Three ways, the fastest that holds for a model first (``verify`` finds out):

- ``shared``: the prefix's keys and values are kept once, and a registered attention function reads them;
- ``copied``: they are copied into every row of the cache. A row shorter than the longest is filled up
  on its left with the last tokens of the prefix, fed again, so that no padding ever stands between tokens:
  windows and distances counted in columns stay right;
- ``plain``: whole prompts, padded on the left.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import torch
from attrs import define, field, frozen
from torch import Tensor, nn
from transformers import DynamicCache

from ke_plugin_hf.adaptors import prompt_lengths
from ke_plugin_hf.decoding import attention
from ke_plugin_hf.decoding.cache import GrowingCache
from ke_plugin_hf.decoding.passes import COUNTER

Mode = Literal["shared", "copied", "plain"]
Layers = tuple[tuple[Tensor, Tensor], ...]


@frozen(kw_only=True, eq=False)
class Prefix:
    """Tokens that rows begin with, and their keys and values by layer, each [kv heads, P, d]."""

    ids: tuple[int, ...]
    layers: Layers

    def cut(self, length: int) -> Prefix:
        """The first ``length`` tokens: views, since nothing depends on what comes later."""
        return Prefix(ids=self.ids[:length], layers=tuple((k[:, :length], v[:, :length]) for k, v in self.layers))


NO_PREFIX = Prefix(ids=(), layers=())


@define(kw_only=True, eq=False)
class DecodingState:
    """Rows in the middle of their text. ``starts``: first column of the cache that is a token, [B].

    ``positions``: the position of the next token, [B]. Both int64, on the device of the embeddings. ``prompts``: how
    many tokens of each row are prompt.
    """

    prefix: Prefix
    cache: Any
    starts: Tensor
    positions: Tensor
    prompts: list[int]

    @property
    def columns(self) -> int:
        """How long the rows' own cache is."""
        return int(self.cache.layers[0].keys.shape[-2])

    def own(self, row: int) -> Layers:
        """A copy of what that row has read behind the prefix."""
        start = int(self.starts[row])
        return tuple(
            (its.keys[row, :, start:].clone(), its.values[row, :, start:].clone()) for its in self.cache.layers
        )

    def keep(self, rows: Sequence[int]) -> None:
        """Drop every row but these."""
        index = torch.tensor(rows, device=self.starts.device)
        self.starts, self.positions = self.starts[index], self.positions[index]
        self.prompts = [self.prompts[row] for row in rows]
        spare = int(self.starts.min())  # columns that are padding in every row left
        self.starts = self.starts - spare
        for layer in self.cache.layers:
            at = index.to(layer.keys.device)
            layer.keys, layer.values = layer.keys[at, :, spare:], layer.values[at, :, spare:]

    def join(self, other: DecodingState) -> None:
        """Take in the rows of ``other``, below ours; the shorter cache is padded on its left."""
        columns = max(self.columns, other.columns)
        self.starts = torch.cat([state.starts + (columns - state.columns) for state in (self, other)])
        self.positions = torch.cat([self.positions, other.positions])
        self.prompts = [*self.prompts, *other.prompts]
        for mine, its in zip(self.cache.layers, other.cache.layers, strict=True):
            mine.keys = torch.cat([_padded(mine.keys, columns), _padded(its.keys, columns)])
            mine.values = torch.cat([_padded(mine.values, columns), _padded(its.values, columns)])


def _padded(tensor: Tensor, columns: int) -> Tensor:
    missing = columns - tensor.shape[-2]
    return nn.functional.pad(tensor, (0, 0, missing, 0)) if missing else tensor


@define(eq=False)
class Forward:
    """A model's forward pass in one of the three ways."""

    module: Any
    mode: Mode
    _takes: frozenset[str] = field(init=False)
    _configs: list[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._takes = frozenset(inspect.signature(self.module.forward).parameters)
        self._configs = attention.configs_of(self.module)

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        device: torch.device = self.module.get_input_embeddings().weight.device
        return device

    def prefix(self, ids: Sequence[int], known: Prefix = NO_PREFIX) -> Prefix:
        """The keys and values of ``ids``, of which ``known`` is the beginning."""
        cache = DynamicCache()
        for number, (keys, values) in enumerate(known.layers):
            cache.update(keys[None], values[None], number)
        fed = torch.tensor([ids[len(known.ids) :]], device=self.device)
        positions = torch.arange(len(known.ids), len(ids), device=self.device)[None]
        mask = torch.ones((1, len(ids)), dtype=torch.int64, device=self.device)
        self._call(fed, positions, cache, mask, 1)
        return Prefix(ids=tuple(ids), layers=tuple((layer.keys[0], layer.values[0]) for layer in cache.layers))

    def prefill(
        self,
        prefix: Prefix,
        rows: Sequence[Sequence[int]],
        keep: int = 1,
        known: Sequence[Layers] = (),
        prompts: Sequence[int] = (),
    ) -> tuple[Tensor, DecodingState]:
        """Read ``rows``, the tokens after ``prefix``, together.

        ``known``, where the prefix is shared: keys and values of the first tokens of each row, () for none. All rows
        are fed as many tokens, so that no padding stands behind them: of a row with fewer to read some are read again.
        ``prompts``: how many tokens of each row, prefix included, are prompt; all of them if it is left out.

        Returns logits [B, keep, vocabulary] of the last ``keep`` positions, in the model's dtype, and the state.
        """
        had = [its[0][0].shape[-2] if its else 0 for its in known] or [0] * len(rows)
        length = max(len(row) - read for row, read in zip(rows, had, strict=True))
        if self.mode == "shared":
            used = [max(len(row) - length, 0) for row in rows]
            fed = [(0,) * (length - len(row)) + tuple(row[skip:]) for row, skip in zip(rows, used, strict=True)]
            cache = _beside(known, used)
        else:
            filled = [(0,) * length + prefix.ids + tuple(row) for row in rows]
            fed = [row[-length:] for row in filled]
            gaps = [length - len(row) for row in rows]  # filled with the prefix's last tokens
            cache = _beside([prefix.layers] * len(rows), [max(len(prefix.ids) - gap, 0) for gap in gaps])
            used = [0] * len(rows)
        columns = length + max(used)
        starts = torch.tensor([columns - len(row) for row in rows], device=self.device)
        whole = [len(prefix.ids) + len(row) for row in rows]
        ends = torch.tensor(whole, device=self.device)
        state = DecodingState(prefix=prefix, cache=cache, starts=starts, positions=ends, prompts=list(prompts or whole))
        positions = (ends[:, None] - length + torch.arange(length, device=self.device)).clamp_(min=0)
        return self._feed(state, torch.tensor(fed, device=self.device), positions, keep), state

    def step(self, state: DecodingState, tokens: Sequence[int]) -> Tensor:
        """Feed one more token a row; logits [B, vocabulary]."""
        fed = torch.tensor(tokens, device=self.device)[:, None]
        logits = self._feed(state, fed, state.positions[:, None], 1)
        state.positions = state.positions + 1
        return logits[:, -1]

    def _feed(self, state: DecodingState, fed: Tensor, positions: Tensor, keep: int) -> Tensor:
        length = fed.shape[1]
        before = state.columns if state.cache.layers else 0
        column = torch.arange(before + length, device=fed.device)
        if self.mode != "shared":
            mask = (column >= state.starts[:, None]).to(torch.int64)
            with prompt_lengths(state.prompts):
                return self._call(fed, positions, state.cache, mask, keep)
        sees: Tensor | None = None
        if length > 1 or bool(state.starts.any()):
            sees = (column >= state.starts[:, None, None, None, None]) & (column <= column[before:, None])
        shared = attention.SharedPrefix(layers=state.prefix.layers, mask=sees)
        with attention.switched(self._configs), attention.active(shared):
            logits = self._call(fed, positions, state.cache, None, keep)
        if shared.calls != len(state.cache.layers):
            raise attention.UnsupportedAttention(
                f"{shared.calls} of {len(state.cache.layers)} layers called the attention function"
            )
        return logits

    def _call(self, fed: Tensor, positions: Tensor, cache: Any, mask: Tensor | None, keep: int) -> Tensor:
        extra: dict[str, Any] = {"logits_to_keep": keep} if "logits_to_keep" in self._takes else {}
        if "position_ids" in self._takes:
            extra["position_ids"] = positions
        if mask is not None:
            extra["attention_mask"] = mask
        COUNTER.add(fed.numel())
        with torch.no_grad():
            logits: Tensor = self.module(input_ids=fed, past_key_values=cache, use_cache=True, **extra).logits
        return logits[:, -keep:]


def _beside(known: Sequence[Layers], used: Sequence[int]) -> Any:
    """A cache with the first ``used`` columns of each row's ``known`` keys and values, all of them ending together."""
    cache, columns = GrowingCache(), max(used)
    if not columns:
        return cache
    for number, pair in enumerate(next(its for its in known if its)):
        filled = []
        for kind, like in enumerate(pair):
            rows = like.new_zeros((len(used), like.shape[0], columns, like.shape[-1]))
            for row, (its, count) in enumerate(zip(known, used, strict=True)):
                if count:
                    rows[row, :, columns - count :] = its[number][kind][:, :count]
            filled.append(rows)
        cache.update(*filled, number)
    return cache
