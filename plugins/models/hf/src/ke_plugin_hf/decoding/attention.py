"""Attention to a prefix that a whole batch shares, without copying it for each row.

The attention of a row splits over its keys: those of the shared prefix, equal for all rows, so that the queries of the
whole batch become rows of one matrix product; and the row's own. With scores s, each part has its softmax output ``o``
and its log-sum-exp ``l = log sum exp(s)``, and the total is

    (o1 exp(l1) + o2 exp(l2)) / (exp(l1) + exp(l2)) = o2 + sigmoid(l1 - l2) (o1 - o2),

which equals softmax over both (as the blocks of FlashAttention, Dao et al. 2022, section 3.1, are merged).

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
# Scores in a block, of which there are up to three copies. On a CPU 2 MiB in float32, to fit into its cache. Elsewhere
# 256 MiB, so that launching a block costs little compared with computing it.
BLOCK, BLOCK_DEVICE = {"cpu": 2**19}, 2**26
LEAST = 64  # queries of a row in a block; each block reads all keys of the row
FUSED = frozenset({"cpu"})  # devices for which torch has one operation that returns o and l
Part = tuple[Tensor, Tensor]
"""The output o [B, kv heads, group, Q, d], and l [B, kv heads, group, Q, 1], in at least float32."""
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

    # To a shared key, the queries of all rows are queries of one row.
    prefix_keys, prefix_values = (its[None] for its in shared.layers[int(module.layer_idx)])  # type: ignore[arg-type]
    folded = rows.transpose(0, 1).reshape(1, kv_heads, 1, batch * group * length, width)
    common = _part(folded, prefix_keys, prefix_values, softcap)
    out, lse = (part.view(kv_heads, batch, group, length, -1).transpose(0, 1) for part in common)
    own, own_lse = _part(rows, key, value, softcap, shared.mask)
    merged = torch.lerp(own, out, torch.sigmoid(lse - own_lse))
    merged = merged.reshape(batch, heads, length, -1).transpose(1, 2)
    return merged.to(query.dtype).contiguous(), None


def _part(query: Tensor, key: Tensor, value: Tensor, softcap: float | None, mask: Tensor | None = None) -> Part:
    """Return the attention to these keys. ``query`` [B, kv heads, group, Q, d], ``key``, ``value`` [B, kv heads, S, d].

    ``mask`` as in ``SharedPrefix``. All scores of a long row at once would need more memory than the rest of the pass,
    so they are computed in blocks of queries. The fused operation holds no scores, but a mask for each head of a group.
    """
    fused = key.device.type in FUSED and softcap is None and key.shape[-1] == value.shape[-1]
    mask = None if mask is None else mask.to(key.device)
    batch, kv_heads, group, length, _width = query.shape
    held = batch * group * key.shape[2] * (1 if fused else kv_heads)
    step = max(LEAST, BLOCK.get(key.device.type, BLOCK_DEVICE) // held)
    if fused and mask is None:
        step = length
    parts = []
    for start in range(0, length, step):
        some = query[:, :, :, start : start + step]
        sees = None if mask is None else mask[:, :, :, start : start + step]
        parts.append(_fused(some, key, value, sees) if fused else _block(some, key, value, softcap, sees))
    out, lse = parts[0] if len(parts) == 1 else (torch.cat(kind, dim=3) for kind in zip(*parts, strict=True))
    return out, lse


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Part:
    """Return the attention of a block of queries, by torch's fused operation for a CPU."""
    added = None
    if mask is not None:  # [B, 1, group x Q, S]
        added = torch.zeros_like(mask, dtype=key.dtype).masked_fill_(~mask, torch.finfo(key.dtype).min)
        added = added.expand(-1, -1, query.shape[2], -1, -1).flatten(2, 3)
    attend_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001  the public one hides l
    out, lse = attend_on_cpu(query.flatten(2, 3), key, value, attn_mask=added, scale=1.0)
    return out.to(lse.dtype).view(*query.shape), lse.view(*query.shape[:4], 1)


def _block(query: Tensor, key: Tensor, value: Tensor, softcap: float | None, mask: Tensor | None) -> Part:
    """Return the attention of a block of queries, with all its scores.

    ``softcap``: scores are cap tanh(s / cap), as in Gemma 2.
    """
    scores = torch.matmul(query.flatten(2, 3), key.transpose(-1, -2))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask is not None:
        spread = scores.view(*scores.shape[:2], -1, *mask.shape[-2:])
        spread.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    out = torch.matmul(weights.to(value.dtype), value).to(total.dtype)
    return out.div_(total).view(*query.shape[:4], -1), total.log_().add_(top).view(*query.shape[:4], 1)


AttentionInterface.register(NAME, attend)
