"""Editing with a trained network: gradients of all edits, then one least-squares problem per matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from ke_plugin_malmen import MalmenConfig
from ke_plugin_malmen.network import MalmenNetwork, new_network
from ke_plugin_malmen.objective import solve
from ke_weights.hypernetwork import HypernetworkEditor, TrainedNetwork, add_updates, edit_details, edit_factors
from ke_weights.plugin import OpenModel, Patch, Rewrite


class Malmen(HypernetworkEditor[MalmenNetwork, MalmenConfig]):
    """Editor that joins the edits of a batch by least squares."""

    name = "malmen"

    def untrained(self, module: nn.Module, recipe: Mapping[str, Any]) -> MalmenNetwork:
        """Return the network before training."""
        return new_network(module, recipe, self.name)

    def write(
        self, model: OpenModel, trained: TrainedNetwork[MalmenNetwork], rewrites: Sequence[Rewrite], weights: Patch
    ) -> dict[str, Any]:
        """Compute and add the updates. Return the details for the record."""
        network = trained.network
        found, losses = edit_factors(model, tuple(network.shapes), rewrites, answers=True)
        shifts = {name: solve(network, name, one, network.changes(name, one)) for name, one in found.items()}
        norms = add_updates(weights, {name: shift.delta() for name, shift in shifts.items()})
        values = {"step_sizes": network.etas(), "ridges": network.ridges.exp()}
        return edit_details(trained.checkpoint, rewrites, losses, norms) | {
            kind: dict(zip(network.shapes, numbers.tolist(), strict=True)) for kind, numbers in values.items()
        }


class RLEdit(Malmen):
    """MALMEN with a network trained on sequences of batches."""

    name = "rledit"
