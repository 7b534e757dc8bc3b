"""The blocks above a layer, run repeatedly on states that only change from one token on.

Optimizing an offset at block L's output needs neither the blocks up to L, which do not change, nor, because of
causality, positions before the offset: only their attention keys and values are needed, which are kept from one full
pass. The other arguments of the blocks (masks, positions, rotary angles) are recorded from the model itself, so no
family's code is repeated here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from attrs import evolve, field, frozen
from torch import Tensor, nn
from torch.func import functional_call
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from ke_plugin_hf.adaptors import first, hidden_in
from ke_plugin_hf.decoding.passes import COUNTER
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap
from ke_weights.subject import SubjectTokens, padded

NEEDED = frozenset(("past_key_values", "position_ids"))  # arguments of a forward pass that suffixes need
AGREE = 1e-3  # maximum difference relative to a state's norm, in float32, to use suffixes
ROUNDING = 16  # the same in roundings of the model's dtype
SHARED = frozenset(("position_bias",))  # arguments of blocks without rows: MPT's has one entry per head


@frozen(kw_only=True, eq=False)
class Call:
    """How the model called one block, except for the hidden states."""

    block: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self, hidden: Tensor, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return the block's output for other hidden states; ``parameters`` by name: instead of the block's own."""
        args = (hidden, *self.args[1:]) if self.args else ()
        kwargs = self.kwargs if self.args else self.kwargs | {"hidden_states": hidden}
        if parameters is None:
            return first(self.block(*args, **kwargs))
        return first(functional_call(self.block, dict(parameters), args, kwargs))


@frozen(kw_only=True, eq=False)
class Tail:
    """``hidden`` [rows, S, d] leaves block L, in the model's dtype. Column 0 of a row is its token ``start``."""

    hidden: Tensor
    start: Tensor
    calls: tuple[Call, ...] = field(repr=False)

    def run(self, hidden: Tensor) -> Tensor:
        """Return the last block's output for these states at block L; differentiable."""
        COUNTER.add(hidden.shape[0] * hidden.shape[1])
        for call in self.calls:
            hidden = call.run(hidden.to(_device(call.block, hidden)))
        return hidden

    def keep(self, rows: Tensor) -> Tail:
        """Keep only these rows (indices, int64)."""
        count = len(self.hidden)
        caches: dict[int, Cache] = {}  # the blocks share one, of all their keys and values
        calls = tuple(
            evolve(call, args=_take(call.args, rows, count, caches), kwargs=_take(call.kwargs, rows, count, caches))
            for call in self.calls
        )
        return Tail(hidden=self.hidden[rows], start=self.start[rows.to(self.start.device)], calls=calls)


def open_tail(modules: ModuleMap, rows: Sequence[SubjectTokens], layer: int) -> Tail:
    """Run ``rows`` once, and keep what the blocks above ``layer`` (-1: all) need from each row's subject on.

    If the model cannot continue from kept keys and values, or gets another result with them, the complete rows are
    kept: slower, same numbers.
    """
    ids, mask = padded([row.ids for row in rows], modules.device)
    index = torch.tensor([row.index for row in rows], device=ids.device)
    cache = DynamicCache() if keeps_keys(modules) else None
    more = {"past_key_values": cache, "use_cache": True} if cache is not None else {}
    with frozen_module(modules.module):
        whole, top = _recorded(modules, ids, mask, layer, more)
        if cache is None or not index.any():
            return whole
        short, short_top = _suffixes(modules, ids, mask, index, layer, cache)
        return short if _agree(top, short_top, index, mask) else whole


def calls_from(modules: ModuleMap, ids: Tensor, start: int, cache: Cache | None) -> tuple[Call, ...]:
    """Return how the model calls each of its blocks for the tokens from ``start`` on of one row of ids [1, T].

    The tokens before them are in ``cache``, whose rows all have these positions: the calls then work for any multiple
    of its rows. ``start`` is 0 without a cache.
    """
    more: dict[str, Any] = {}
    if start:
        assert cache is not None
        prefix = DynamicCache()
        at = torch.arange(start, device=ids.device)
        prefix.layers = [_Fixed.of(kept.keys, kept.values, at.expand(len(kept.keys), -1)) for kept in cache.layers]
        position = torch.arange(start, ids.shape[1], device=ids.device)[None]
        more = {"past_key_values": prefix, "use_cache": True, "position_ids": position}
    with frozen_module(modules.module):
        tail, _top = _recorded(modules, ids[:, start:], torch.ones_like(ids), -1, more)
    return tail.calls


def keeps_keys(modules: ModuleMap) -> bool:
    """Return whether the model accepts keys and values to continue from."""
    return frozenset(inspect.signature(modules.module.forward).parameters) >= NEEDED


def _recorded(modules: ModuleMap, ids: Tensor, mask: Tensor, layer: int, more: dict[str, Any]) -> tuple[Tail, Tensor]:
    """Run one pass of the model. Return its tail, and the last block's output."""
    calls: list[Call] = []
    states: list[Tensor] = []
    last = modules.layers[-1].block
    with Hooks() as hooks:
        for above in modules.layers[layer + 1 :]:

            def see(args: tuple[Any, ...], kwargs: dict[str, Any], block: nn.Module = above.block) -> None:
                if not states:
                    states.append(hidden_in(args, kwargs))
                # A recording cache has grown in this pass; a replay of complete rows needs none.
                calls.append(Call(block=block, args=_no_growing(args), kwargs=_no_growing(kwargs)))

            hooks.before(above.block, see)
        tops: list[Tensor] = []
        hooks.after(last, tops.append)
        hooks.stop_after(last)
        forward(modules.module, ids, mask, **more)
    hidden = states[0] if states else tops[0]
    return Tail(
        hidden=hidden, start=torch.zeros(len(ids), dtype=torch.long, device=ids.device), calls=tuple(calls)
    ), tops[0]


def _suffixes(
    modules: ModuleMap, ids: Tensor, mask: Tensor, index: Tensor, layer: int, cache: Cache
) -> tuple[Tail, Tensor]:
    """Run a second pass over positions from ``index`` on, with the kept keys and values of those before it.

    Prefixes are aligned on the right, so that distances between tokens are correct across the border.
    """
    before, after = int(index.max()), int((mask.sum(1) - index).max())
    left = index[:, None] - before + torch.arange(before, device=ids.device)
    right = index[:, None] + torch.arange(after, device=ids.device)
    inside = right < mask.sum(1)[:, None]
    prefix = DynamicCache()
    prefix.layers = [_Fixed.of(kept.keys, kept.values, left.clamp(min=0)) for kept in cache.layers]
    more = {"past_key_values": prefix, "use_cache": True, "position_ids": right.clamp(max=ids.shape[1] - 1)}
    suffix = ids.gather(1, right.clamp(max=ids.shape[1] - 1)) * inside
    tail, top = _recorded(modules, suffix, torch.cat([left >= 0, inside], 1).long(), layer, more)
    return evolve(tail, start=index), top


def _agree(top: Tensor, short_top: Tensor, index: Tensor, mask: Tensor) -> bool:
    right = index[:, None] + torch.arange(short_top.shape[1], device=index.device)
    inside = right < mask.sum(1)[:, None]
    at = right.clamp(max=mask.shape[1] - 1)[:, :, None].expand(-1, -1, top.shape[-1])
    expected = top.gather(1, at.to(top.device))[inside.to(top.device)].float()
    off = (short_top[inside.to(short_top.device)].float() - expected).norm(dim=-1)
    tolerance = max(AGREE, ROUNDING * torch.finfo(top.dtype).eps)
    return bool((off <= tolerance * expected.norm(dim=-1)).all())


class _Fixed(DynamicLayer):  # type: ignore[misc]  # untyped in transformers
    """Kept keys and values of a prefix, to which a pass appends its own without storing them."""

    @classmethod
    def of(cls, keys: Tensor, values: Tensor, at: Tensor) -> _Fixed:
        """Keep positions ``at`` [rows, P] of keys and values [rows, heads, T, width]."""
        made = cls()
        made.lazy_initialization(keys, values)
        made.keys, made.values = _gather(keys, at), _gather(values, at)
        return made

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return prefix and suffix together. The prefix is unchanged, and repeats for each further set of its rows."""
        rows = torch.arange(len(key_states), device=self.keys.device) % len(self.keys)
        keys, values = (self.keys, self.values) if len(rows) == len(self.keys) else (self.keys[rows], self.values[rows])
        return torch.cat([keys, key_states], dim=-2), torch.cat([values, value_states], dim=-2)

    def rows(self, rows: Tensor) -> _Fixed:
        """Keep only these rows."""
        made = _Fixed()
        made.lazy_initialization(self.keys, self.values)
        made.keys, made.values = self.keys[rows.to(self.keys.device)], self.values[rows.to(self.keys.device)]
        return made


def _gather(kept: Tensor, at: Tensor) -> Tensor:
    index = at.to(kept.device)[:, None, :, None].expand(-1, kept.shape[1], -1, kept.shape[3])
    return kept.gather(2, index)


def _no_growing(value: Any) -> Any:
    """Remove caches that store what they receive."""
    if isinstance(value, Cache):
        fixed = value.layers and all(isinstance(layer, _Fixed) for layer in value.layers)  # empty before block 0
        return value if fixed else None
    if isinstance(value, tuple):
        return tuple(_no_growing(item) for item in value)
    if isinstance(value, dict):
        return {name: _no_growing(item) for name, item in value.items()}
    return value


def _take(value: Any, rows: Tensor, count: int, caches: dict[int, Cache]) -> Any:
    """Return the part for ``rows`` of an argument of a block; what is equal for all rows is unchanged.

    ``caches``: parts of caches taken already, by the identity of the complete ones.
    """
    if isinstance(value, tuple):
        return tuple(_take(item, rows, count, caches) for item in value)
    if isinstance(value, dict):
        return {name: item if name in SHARED else _take(item, rows, count, caches) for name, item in value.items()}
    if isinstance(value, Cache):
        if id(value) not in caches:
            caches[id(value)] = made = DynamicCache()
            made.layers = [layer.rows(rows) for layer in value.layers]
        return caches[id(value)]
    if isinstance(value, Tensor) and value.dim() > 1 and value.shape[0] > 1 and value.shape[0] % count == 0:
        each = value.reshape(count, -1, *value.shape[1:])[rows.to(value.device)]  # ALiBi: rows times heads
        return each.reshape(-1, *value.shape[1:])
    return value


def _device(block: nn.Module, hidden: Tensor) -> torch.device:
    weight = next(block.parameters(), hidden)
    return hidden.device if weight.is_meta else weight.device
