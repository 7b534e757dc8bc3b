"""Forward passes over rows of unequal length: inputs, masks, and the keys and values that are kept.

Three backends, fastest first; ``verify`` selects the fastest correct one:

- ``shared``: the prefix's keys and values are stored once, and a registered attention function reads them.
- ``copied``: they are copied into every row of the cache. A row shorter than the longest is filled on its left with
  the last tokens of the prefix, read again, so that there is never padding between tokens. Windows and distances
  counted in columns stay correct.
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

from ke_plugin_hf.decoding import attention
from ke_plugin_hf.decoding.cache import GrowingCache
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.kept_rows import join_kept, select_kept
from ke_plugin_hf.layer_calls import prompt_lengths

Mode = Literal["shared", "copied", "plain"]
Layers = tuple[tuple[Tensor, Tensor], ...]


@frozen(kw_only=True, eq=False)
class Prefix:
    """Tokens that rows begin with, and their keys and values by layer, each [kv heads, P, d]."""

    ids: tuple[int, ...]
    layers: Layers

    def cut(self, length: int) -> Prefix:
        """Return views of the first ``length`` tokens, which do not depend on later ones."""
        return Prefix(ids=self.ids[:length], layers=tuple((k[:, :length], v[:, :length]) for k, v in self.layers))


NO_PREFIX = Prefix(ids=(), layers=())


@define(kw_only=True, eq=False)
class DecodingState:
    """The state of rows in progress. ``starts``: first column of the cache that is a token, [B].

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
        """The number of columns in the rows' own cache."""
        return int(self.cache.layers[0].keys.shape[-2])

    def own(self, row: int) -> Layers:
        """Return a copy of a row's keys and values after the prefix."""
        start = int(self.starts[row])
        return tuple(
            (its.keys[row, :, start:].clone(), its.values[row, :, start:].clone()) for its in self.cache.layers
        )

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all rows except these."""
        index = torch.tensor(rows, device=self.starts.device)
        self.starts, self.positions = self.starts[index], self.positions[index]
        self.prompts = [self.prompts[row] for row in rows]
        spare = int(self.starts.min())  # columns that are padding in every remaining row
        self.starts = self.starts - spare
        select_kept(self.cache, index)
        for layer in self.cache.layers:
            at = index.to(layer.keys.device)
            layer.replace(*(its[at, :, spare:] for its in layer.states))

    def forget(self, counts: Sequence[int]) -> None:
        """Remove the last tokens of each row, ``counts[b]`` of row b, from its cache."""
        fewest, most = min(counts), max(counts)
        removed = torch.tensor(counts, device=self.positions.device)
        self.positions = self.positions - removed
        end = self.columns - fewest
        if most == fewest:
            for layer in self.cache.layers:
                layer.keys, layer.values = layer.keys[:, :, :end], layer.values[:, :, :end]
            return
        shift = removed.to(self.starts.device) - fewest
        self.starts = self.starts + shift
        spare = int(self.starts.min())  # columns that are padding in every row
        self.starts = self.starts - spare
        columns = (torch.arange(spare, end, device=shift.device) - shift[:, None]).clamp_(min=0)
        for layer in self.cache.layers:
            at = columns.to(layer.keys.device)[:, None, :, None]
            layer.replace(*(its.gather(2, at.expand(-1, its.shape[1], -1, its.shape[3])) for its in layer.states))

    def join(self, other: DecodingState) -> None:
        """Append the rows of ``other``; the shorter cache is padded on its left."""
        columns = max(self.columns, other.columns)
        self.starts = torch.cat([state.starts + (columns - state.columns) for state in (self, other)])
        self.positions = torch.cat([self.positions, other.positions])
        self.prompts = [*self.prompts, *other.prompts]
        join_kept(self.cache, other.cache)
        for mine, its in zip(self.cache.layers, other.cache.layers, strict=True):
            mine.keys = torch.cat([_padded(mine.keys, columns), _padded(its.keys, columns)])
            mine.values = torch.cat([_padded(mine.values, columns), _padded(its.values, columns)])


def _padded(tensor: Tensor, columns: int) -> Tensor:
    missing = columns - tensor.shape[-2]
    return nn.functional.pad(tensor, (0, 0, missing, 0)) if missing else tensor


@define(eq=False)
class Forward:
    """A model's forward pass with one of the three backends.

    ``extends``: whether several tokens can be read after cached ones, and discarded again.
    """

    module: Any
    mode: Mode
    extends: bool = field(default=False, init=False)
    _takes: frozenset[str] = field(init=False)
    _configs: list[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._takes = frozenset(inspect.signature(self.module.forward).parameters)
        self._configs = attention.configs_of(self.module)

    @property
    def device(self) -> torch.device:
        """The device of token ids."""
        return input_device(self.module)

    def prefix(self, ids: Sequence[int], known: Prefix = NO_PREFIX) -> Prefix:
        """Return the keys and values of ``ids``, which begin with those of ``known``."""
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

        ``known``: keys and values of the first tokens of each row, () for none. All rows have the same number of new
        tokens, so that there is no padding after them: shorter rows read some tokens again.
        ``prompts``: how many tokens of each row, prefix included, are prompt; default: all.

        Returns logits [B, keep, vocabulary] of the last ``keep`` positions, in the model's dtype, and the state.
        """
        known = list(known) or [()] * len(rows)
        texts = [tuple(row) for row in rows]
        if self.mode == "copied":
            texts = [prefix.ids + text for text in texts]
            known = [_joined(prefix.layers, its) for its in known]
        had = [its[0][0].shape[-2] if its else 0 for its in known]
        length = max(len(text) - read for text, read in zip(texts, had, strict=True))
        used = [max(len(text) - length, 0) for text in texts]
        fed = [(0,) * (length - len(text)) + text[skip:] for text, skip in zip(texts, used, strict=True)]
        cache = _cache_with(known, used)
        columns = length + max(used)
        starts = torch.tensor([columns - len(text) for text in texts], device=self.device)
        whole = [len(prefix.ids) + len(row) for row in rows]
        ends = torch.tensor(whole, device=self.device)
        state = DecodingState(prefix=prefix, cache=cache, starts=starts, positions=ends, prompts=list(prompts or whole))
        positions = (ends[:, None] - length + torch.arange(length, device=self.device)).clamp_(min=0)
        return self._feed(state, torch.tensor(fed, device=self.device), positions, keep), state

    def step(self, state: DecodingState, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Read T more tokens of each row, usually one, and return logits [B, T, vocabulary]."""
        fed = torch.tensor(tokens, device=self.device)
        length = fed.shape[1]
        positions = state.positions[:, None] + torch.arange(length, device=self.device)
        logits = self._feed(state, fed, positions, length)
        state.positions = state.positions + length
        return logits

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

    def _positions(self, fed: Tensor, keep: int) -> Tensor | int:
        """Return the last ``keep`` positions, or only their number.

        With a number, transformers gives the head a strided view, for which torch copies the head's weight on a CPU,
        once per row. Several accelerators need a number, because the states may be on another device than the ids.
        Code outside transformers may accept nothing else.
        """
        known = type(self.module).__module__.startswith("transformers.")
        length = fed.shape[1]
        return torch.arange(length - keep, length) if known and fed.device.type == "cpu" else keep

    def _call(self, fed: Tensor, positions: Tensor, cache: Any, mask: Tensor | None, keep: int) -> Tensor:
        extra: dict[str, Any] = {}
        if "logits_to_keep" in self._takes:
            extra["logits_to_keep"] = self._positions(fed, keep)
        if "position_ids" in self._takes:
            extra["position_ids"] = positions
        if mask is not None:
            extra["attention_mask"] = mask
        COUNTER.add(fed.numel())
        with torch.no_grad():
            logits: Tensor = self.module(input_ids=fed, past_key_values=cache, use_cache=True, **extra).logits
        return logits[:, -keep:]


def _joined(one: Layers, other: Layers) -> Layers:
    """Append the tokens of ``other``."""
    if not other:
        return one
    return tuple(
        (torch.cat([keys, more_keys], 1), torch.cat([values, more_values], 1))
        for (keys, values), (more_keys, more_values) in zip(one, other, strict=True)
    )


def _cache_with(known: Sequence[Layers], used: Sequence[int]) -> Any:
    """Return a cache with the first ``used`` columns of each row's ``known`` keys and values, aligned at their ends."""
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


def input_device(module: Any) -> torch.device:
    """Return the device of token ids: that of the embedding, or where an offloaded embedding is computed."""
    first = module.get_input_embeddings()
    hook = getattr(first, "_hf_hook", None) if first.weight.is_meta else None  # of accelerate
    return torch.device(first.weight.device if hook is None else hook.execution_device)
