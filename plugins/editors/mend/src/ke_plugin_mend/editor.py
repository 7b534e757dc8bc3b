"""Editing with a trained network: one forward and backward pass, one low-rank update per matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ke_plugin_mend import MendConfig, Reduction
from ke_plugin_mend.network import MendNetwork, new_network
from ke_weights.hypernetwork import HypernetworkEditor, TrainedNetwork, add_updates, edit_details, edit_factors
from ke_weights.plugin import LowRank, OpenModel, Patch, Rewrite, target_ids


class Mend(HypernetworkEditor[MendNetwork, MendConfig]):
    """Editor that updates the MLPs of the last blocks."""

    name = "mend"

    def untrained(self, module: nn.Module, recipe: Mapping[str, Any]) -> MendNetwork:
        """Return the network before training."""
        return new_network(module, recipe)

    def write(
        self, model: OpenModel, trained: TrainedNetwork[MendNetwork], rewrites: Sequence[Rewrite], weights: Patch
    ) -> dict[str, Any]:
        """Compute and add the updates. Return the details for the record."""
        network, scale = trained.network, self.config.lr_scale
        losses, updates = compute_updates(model, network, rewrites, self.config.reduction)
        scaled = {name: LowRank(left=scale * one.left, right=one.right) for name, one in updates.items()}
        norms = add_updates(weights, scaled)
        rates = dict(zip(network.shapes, network.steps.tolist(), strict=True))
        return edit_details(trained.checkpoint, rewrites, losses, norms) | {"step_sizes": rates}


def compute_updates(
    model: OpenModel, network: MendNetwork, rewrites: Sequence[Rewrite], reduction: Reduction = "edit-sum"
) -> tuple[Tensor, dict[str, LowRank]]:
    """Return each edit's loss before editing [N], and the update of every layer from all tokens of all edits.

    The gradient is that of the sum of the edits' losses. With ``token-mean``, each edit is weighted by its fraction of
    all target tokens, which turns the sum into their mean.
    """
    found, losses = edit_factors(model, tuple(network.shapes), rewrites)
    lengths = [len(target_ids(model.tokenizer, made.prompt, made.target)) for made in rewrites]
    shares = _loss_weights(lengths, reduction).to(model.device)
    updates = {}
    for name, factor in found.items():
        x, g = network.transform(name, factor.scaled(shares))
        updates[name] = LowRank(left=g.T, right=x)
    return losses, updates


def _loss_weights(lengths: Sequence[int], reduction: Reduction) -> Tensor:
    """Return the weight of each edit's loss, [N], given the number of its target's tokens."""
    if reduction == "edit-sum":
        return torch.ones(len(lengths), dtype=torch.float32)
    return torch.tensor([length / sum(lengths) for length in lengths], dtype=torch.float32)
