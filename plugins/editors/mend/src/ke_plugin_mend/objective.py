"""The training objective of the network (MEND section 3.2, equation 4).

One step of editing, W' = W + lr sum_t g~_t x~_t^T, and then

    L = c_edit * mean -log p_W'(target | another wording)  +  c_loc * mean KL(p_W || p_W' on other text),

differentiated with respect to the network and the step sizes only: x and g are constants (first order). The updated
weights are never formed: each edit of a batch acts in a side branch on its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_plugin_mend.factors import GradientFactors, factors, side_branches
from ke_plugin_mend.network import Hypernetwork
from ke_weights.plugin import ScoredTokens, forward, stacked


@frozen(eq=False)
class TrainingBatch:
    """The edits of one step: ``inner`` are the edits, ``outer`` the wordings that they are tested on.

    ``ids``, ``mask`` [edits, T]: other text, one row per edit.
    """

    inner: ScoredTokens
    outer: ScoredTokens
    ids: Tensor
    mask: Tensor


@frozen(eq=False)
class LossWeights:
    """c_edit and c_loc."""

    edit: float
    locality: float


@frozen(eq=False)
class Losses:
    """Means over the edits of a step, in nats. ``total`` has the gradient. ``before``: of the unedited prompt."""

    total: Tensor
    edit: float
    locality: float
    before: float


def objective(module: nn.Module, network: Hypernetwork, examples: TrainingBatch, weights: LossWeights) -> Losses:
    """Return L of one step, and update the normalizers. Gradients must be enabled, parameters frozen."""
    edits = len(examples.inner.ids)
    unscored = (examples.ids, examples.mask)
    found, before, logits = factors(module, tuple(network.shapes), examples.inner, unscored)
    width = examples.ids.shape[1]
    base = logits[edits:, :width]
    network.observe(found)
    with edited(module, network, found, edits):
        ids, mask = stacked((examples.outer.ids, examples.outer.mask), unscored)
        after = forward(module, ids, mask).logits
    edit = examples.outer.nll(examples.outer.pick(after)).mean()
    locality = divergence(base, after[edits:, :width], examples.mask).mean()
    total = weights.edit * edit + weights.locality * locality
    return Losses(total, float(edit.detach()), float(locality.detach()), float(before.mean()))


@contextmanager
def edited(
    module: nn.Module, network: Hypernetwork, found: Mapping[str, GradientFactors], edits: int
) -> Iterator[None]:
    """Run rows b and b + edits with the update of the b-th edit."""
    updates = {}
    for name, factor in found.items():
        x, g = network.transform(name, factor)
        right, left = by_row(x, factor.row, edits), by_row(g, factor.row, edits).transpose(1, 2)
        updates[name] = (left.repeat(2, 1, 1), right.repeat(2, 1, 1))
    with side_branches(module, updates, 2 * edits):
        yield


def by_row(vectors: Tensor, row: Tensor, rows: int) -> Tensor:
    """Convert [M, n] of tokens in the order of their rows to [rows, K, n], padded with zeros."""
    counts = torch.bincount(row, minlength=rows)
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(row), device=row.device) - starts[row]
    deepest = max(int(counts.max()), 1)
    filled = vectors.new_zeros(rows, deepest, vectors.shape[1])
    return filled.index_put((row, place), vectors)


def divergence(base: Tensor, now: Tensor, mask: Tensor) -> Tensor:
    """Return KL(base || now) [rows], the mean over a row's tokens; logits [rows, T, V], mask [rows, T]."""
    precise = torch.promote_types(base.dtype, torch.float32)
    old, new = base.to(precise).log_softmax(dim=-1), now.to(precise).log_softmax(dim=-1)
    each = (old.exp() * (old - new)).sum(dim=-1) * mask
    return each.sum(dim=1) / mask.sum(dim=1)


def finite(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether every gradient is finite."""
    return all(bool(tensor.isfinite().all()) for tensor in tensors if tensor is not None)
