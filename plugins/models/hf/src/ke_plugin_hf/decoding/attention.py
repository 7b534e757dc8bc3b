"""Attention to a prefix that a whole batch shares, without copying it for each row.

The attention of a row splits over its keys: those of the shared prefix, equal for all rows, so that the queries of the
whole batch become rows of one matrix product; and the row's own. With scores s, each part has ``m = max s``,
``l = sum exp(s - m)`` and ``o = sum exp(s - m) v``, and the total is

    (o1 exp(m1 - M) + o2 exp(m2 - M)) / (l1 exp(m1 - M) + l2 exp(m2 - M)),   M = max(m1, m2),

which equals softmax over both (the merge of FlashAttention, Dao et al. 2022, section 3.1).

transformers calls a registered function instead of its own if a decoder uses its ``AttentionInterface``. Some decoders
accept the setting and never call it, so calls are counted, and ``verify`` checks the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from attrs import define
from torch import Tensor, nn
from transformers import AttentionInterface

from ke_core.plugin import uninterruptible_context

NAME = "ke_shared_prefix"
# Bytes of scores in a block, of which there are up to three copies. On a CPU 2 MiB in float32, to fit into its cache.
# Elsewhere 256 MiB, so that launching a block costs little compared with computing it.
BLOCK, BLOCK_DEVICE = {"cpu": 2**19}, 2**26
LEAST = 64  # queries of a row in a block; each block reads all keys of the row
Part = tuple[Tensor, Tensor, Tensor]
KNOWN = frozenset({"position_ids", "use_cache", "output_attentions", "output_hidden_states", "cu_seq_lens_q",
                   "cu_seq_lens_k", "max_length_q", "max_length_k", "is_causal", "sliding_window",
                   "logits_to_keep", "cache_position"})  # fmt: skip


class UnsupportedAttention(Exception):
    """The attention of this model uses something that the shared form does not support."""


@define(eq=False)
class SharedPrefix:
    """What one forward pass attends to: ``layers`` of prefix keys and values, each [kv heads, P, d].

    ``mask`` [B, 1, 1, Q, S] is True if a row's query may see one of its own keys; None if it sees all of them.
    """

    layers: Sequence[tuple[Tensor, Tensor]]
    mask: Tensor | None
    calls: int = 0


_active: ContextVar[SharedPrefix | None] = ContextVar("shared prefix", default=None)


@uninterruptible_context
def active(shared: SharedPrefix) -> Iterator[SharedPrefix]:
    """Make forward passes of the block attend to this prefix."""
    token = _active.set(shared)
    try:
        yield shared
    finally:
        _active.reset(token)


def configs_of(module: nn.Module) -> list[Any]:
    """Return every configuration object with an attention setting."""
    return list({id(part.config): part.config for part in module.modules() if hasattr(part, "config")}.values())


@uninterruptible_context
def switched(configs: Sequence[Any]) -> Iterator[None]:
    """Switch the model to this attention function inside the block, and restore it afterwards."""
    before = [getattr(config, "_attn_implementation", None) for config in configs]
    try:
        for config in configs:
            config._attn_implementation = NAME  # noqa: SLF001  the setter that set_attn_implementation ends in
        yield
    finally:
        for config, setting in zip(configs, before, strict=True):
            config._attn_implementation = setting  # noqa: SLF001


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
    scaling: float | None = None, dropout: float = 0.0, softcap: float | None = None, **extra: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """The registered function. ``query`` [B, H, Q, d], ``key`` and ``value`` [B, kv heads, S, d]: own keys only.

    Returns [B, Q, H, d] in the query's dtype; scores and sums use at least float32. Raises UnsupportedAttention for
    unknown arguments, such as attention sinks and position biases.
    """
    shared = _active.get()
    strange = sorted(name for name, given in extra.items() if given is not None and name not in KNOWN)
    if shared is None or attention_mask is not None or dropout or strange:
        raise UnsupportedAttention(f"attention called with {strange or 'a mask, dropout or no prefix'}")
    shared.calls += 1
    batch, heads, length, width = query.shape
    kv_heads = key.shape[1]
    group = heads // kv_heads
    query = query * (width**-0.5 if scaling is None else scaling)
    rows = query.reshape(batch, kv_heads, group, length, width)

    prefix_keys, prefix_values = shared.layers[int(module.layer_idx)]  # type: ignore[arg-type]
    folded = rows.transpose(0, 1).reshape(kv_heads, batch * group * length, width)
    top, total, out = _of_prefix(folded, prefix_keys, prefix_values, softcap)
    top, total, out = (part.view(kv_heads, batch, group * length, -1).transpose(0, 1) for part in (top, total, out))

    own_top, own_total, own = _of_own(rows, key, value, softcap, shared.mask)
    most = torch.maximum(top, own_top)
    left, right = (top - most).exp_(), (own_top - most).exp_()
    merged = (out * left + own * right) / (total * left + own_total * right)
    merged = merged.reshape(batch, heads, length, -1).transpose(1, 2)
    return merged.to(query.dtype).contiguous(), None


def _scores(query: Tensor, key: Tensor, softcap: float | None) -> Tensor:
    """Return scores in at least float32, [..., Q, S], capped as in Gemma 2: cap tanh(s / cap)."""
    scores = torch.matmul(query, key.transpose(-1, -2))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap


def _part(query: Tensor, key: Tensor, value: Tensor, softcap: float | None, mask: Tensor | None = None) -> Part:
    """Return partial m and l, [..., N, 1], and o, [..., N, d], of N queries; ``mask`` as in ``SharedPrefix``."""
    scores = _scores(query, key, softcap)
    if mask is not None:
        spread = scores.view(*scores.shape[:2], -1, *mask.shape[-2:])
        spread.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    return top, total, torch.matmul(weights.to(value.dtype), value).to(total.dtype)


def _of_prefix(query: Tensor, key: Tensor, value: Tensor, softcap: float | None) -> Part:
    """Return the part of the prefix in blocks of queries, [kv heads, N, d], folded."""
    step = max(1, _block(key) // (key.shape[0] * key.shape[1]))
    return _joined([_part(some, key, value, softcap) for some in torch.split(query, step, dim=1)], dim=1)


def _of_own(query: Tensor, key: Tensor, value: Tensor, softcap: float | None, mask: Tensor | None) -> Part:
    """Return the part of the rows' own keys, [B, kv heads, N, d], in blocks of ``query`` [B, kv heads, group, Q, d].

    All scores of a long row at once would need more memory than the rest of the pass.
    """
    batch, kv_heads, group, length, _width = query.shape
    step = max(LEAST, _block(key) // (batch * kv_heads * group * key.shape[2]))
    mask = None if mask is None else mask.to(key.device)
    parts = []
    for start in range(0, length, step):
        some = query[:, :, :, start : start + step]
        sees = None if mask is None else mask[:, :, :, start : start + step]
        part = _part(some.flatten(2, 3), key, value, softcap, sees)
        parts.append(tuple(tensor.view(batch, kv_heads, group, some.shape[3], -1) for tensor in part))
    top, total, out = (tensor.flatten(2, 3) for tensor in _joined(parts, dim=3))
    return top, total, out


def _block(key: Tensor) -> int:
    return BLOCK.get(key.device.type, BLOCK_DEVICE)


def _joined(parts: Sequence[tuple[Tensor, ...]], dim: int) -> Part:
    """Concatenate the parts of blocks; a single one is not copied."""
    top, total, out = parts[0] if len(parts) == 1 else (torch.cat(kind, dim=dim) for kind in zip(*parts, strict=True))
    return top, total, out


AttentionInterface.register(NAME, attend)
