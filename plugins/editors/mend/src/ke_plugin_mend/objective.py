"""The training objective of the network (MEND section 3.2, equation 4).

One step of editing, W' = W + lr sum_t g~_t x~_t^T, and then

    L = c_edit * mean -log p_W'(target | another wording)  +  c_loc * mean KL(p_W || p_W' on other text),

differentiated with respect to the network and the step sizes only: x and g are constants (first order). The updated
weights are never formed: each edit of a batch acts in a side branch on its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from attrs import frozen
from torch import Tensor, nn

from ke_plugin_mend.branches import side_branches
from ke_plugin_mend.network import MendNetwork
from ke_weights.hypernetwork import EditBatch, GradientFactors, StepLosses, divergence, gradient_factors
from ke_weights.plugin import forward, stacked


@frozen(eq=False)
class LossWeights:
    """c_edit and c_loc."""

    edit: float
    locality: float


def objective(module: nn.Module, network: MendNetwork, examples: EditBatch, weights: LossWeights) -> StepLosses:
    """Return L of one step, and update the normalizers. Gradients must be enabled, parameters frozen."""
    edits = len(examples.inner.ids)
    unscored = (examples.ids, examples.mask)
    found, before, logits = gradient_factors(module, tuple(network.shapes), examples.inner, unscored)
    width = examples.ids.shape[1]
    base = logits[edits:, :width]
    network.observe(found)
    with edited(module, network, found, edits):
        ids, mask = stacked((examples.outer.ids, examples.outer.mask), unscored)
        after = forward(module, ids, mask).logits
    edit = examples.outer.nll(examples.outer.pick(after)).mean()
    locality = divergence(base, after[edits:, :width], examples.mask).mean()
    total = weights.edit * edit + weights.locality * locality
    return StepLosses(total, float(edit.detach()), float(locality.detach()), float(before.mean()))


@contextmanager
def edited(module: nn.Module, network: MendNetwork, found: Mapping[str, GradientFactors], edits: int) -> Iterator[None]:
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
