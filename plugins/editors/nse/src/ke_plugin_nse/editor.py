"""NSE's algorithm (Jiang et al. 2025, section 3).

::

    for each edit:              z_i as in MEMIT, on the original weights W_0                        (weights rewinding)
    repeat (at most ``passes`` times), with the edits that have alpha < |z_i - h_i| < upper:        (iterative editing)
        for l in layers, ascending:
            K, R                as in MEMIT
            I = the neurons (rows of K) with the largest scores sum_i |K_ni|, up to the fraction p of all scores
            W_l[:, I] += R K_I^T (lambda C_II + S_II + K_I K_I^T)^-1                                (neuron selection)
    afterwards:                 S_l += K K^T for all edits, with the keys of the edited model

h_i is the current state at the last of the layers. Sums over i run over the edits of the batch. Edits that an update
wrapper abandoned are in no pass: their z_i is a state of W_0, so an update would undo what earlier edits changed there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from attrs import define, field
from torch import Tensor

from ke_core.plugin import Details
from ke_plugin_nse import NseConfig, derive
from ke_weights.plugin import (
    Delta,
    EditInProgress,
    EditState,
    EditTargets,
    LocateContextCache,
    LocateEditor,
    LowRank,
    double,
    frobenius,
    ridge_update,
    site_states,
    spread_over_layers,
    summed,
    swapped,
)

ByLayer = Mapping[int, Tensor]


class Nse(LocateEditor):
    """Editor that writes batches of edits one after another into the most active neurons of several layers.

    State: W_0 of the edited layers, and the keys of the active edits, whose K K^T add up to S.
    """

    def __init__(self, config: NseConfig) -> None:
        super().__init__(LocateContextCache.multi_layer(config, derive))
        self._originals: EditState[ByLayer] = EditState()
        self._history: EditState[ByLayer] = EditState()

    def write(self, work: EditInProgress) -> Details:
        """Optimize the targets on W_0, and write them in passes."""
        context = work.context
        layers = context["layers"]
        with self._rewound(work):
            targets = work.edit_targets(layers[-1], "block")
        passes = _Passes(work, targets, self._history.of(work))
        left = passes.run()
        return context.details(passes.relative_norms(), targets.report(left)) | passes.details()

    def after(self, work: EditInProgress) -> None:
        """Keep the keys of these edits while they are active."""
        self._history.keep(work, {layer: work.edit_keys(layer) for layer in work.context["layers"]})

    @contextmanager
    def _rewound(self, work: EditInProgress) -> Iterator[None]:
        """Use W_0 in the block. The first of the active edits finds it in the model."""
        modules, layers = work.context.modules, work.context["layers"]
        if not self._originals.of(work):
            parameters = {layer: modules.layers[layer].projection.get_parameter("weight") for layer in layers}
            self._originals.keep(work, {layer: weight.detach().clone() for layer, weight in parameters.items()})
        first = self._originals.of(work)[0]
        with swapped(modules.module, {modules.layers[layer].weight_name: first[layer] for layer in layers}):
            yield


@define(eq=False)
class _Passes:
    """The passes over the layers for one batch. ``history``: keys of the earlier batches.

    ``written``: edits that were in a pass. ``far``: the latest distances of edits that were left out at ``upper``. By
    their places in the batch.
    """

    work: EditInProgress
    targets: EditTargets
    history: list[ByLayer]
    made: list[dict[str, Any]] = field(factory=list, init=False)
    written: set[int] = field(factory=set, init=False)
    far: dict[int, float] = field(factory=dict, init=False)
    _sizes: dict[int, float] = field(factory=dict, init=False)
    _updates: dict[int, Delta] = field(factory=dict, init=False)

    def run(self) -> Tensor:
        """Write until no edit is left or ``passes`` are made. Return z - h of every edit, [d, N]."""
        context = self.work.context
        layers = context["layers"]
        self._sizes = {layer: float(self.work.matrix(layer).norm()) for layer in layers}
        kept = {at for at, each in enumerate(self.targets.rewrites) if each.id not in self.targets.abandoned}
        for _ in range(context["passes"]):
            distances = self._left().norm(dim=0)
            wanted = (distances > context["alpha"]) & (distances < context["upper"])
            chosen = [at for at in wanted.nonzero()[:, 0].tolist() if at in kept]
            self.written.update(chosen)
            far = [at for at in (distances >= context["upper"]).nonzero()[:, 0].tolist() if at in kept]
            self.far.update((at, float(distances[at])) for at in far)
            if not chosen:
                break
            spread_over_layers(self.work.weights, context.modules, self.targets.of(chosen), layers, self._solve)
            self.made.append({"edits": len(chosen), "mean_distance": float(distances[chosen].mean())})
        return self._left()

    def _left(self) -> Tensor:
        top = self.work.context["layers"][-1]
        now = site_states(self.work.context.modules, self.targets.rows, top, "block")
        return self.targets.z.to(now.device) - now

    def _solve(self, layer: int, keys: Tensor, residual: Tensor) -> LowRank:
        """Return the update of the most active neurons of ``layer``; its other columns are zero."""
        context, weight = self.work.context, self.work.context["mom2_weight"]
        neurons = most_active(keys, context["p"])
        earlier = [saved[layer][neurons] for saved in self.history]
        solved = ridge_update(context.covariances[layer].of(neurons), keys[neurons], residual, weight, earlier)
        right = torch.zeros(len(solved.right), len(keys), dtype=solved.right.dtype, device=solved.right.device)
        right[:, neurons.to(right.device)] = solved.right
        update = LowRank(left=solved.left, right=right)
        self._updates[layer] = summed(self._updates.get(layer), update)
        return update

    def relative_norms(self) -> dict[str, float]:
        """Return the norm of each layer's update of all passes, relative to that of the weight before."""
        return {str(layer): frobenius(update) / self._sizes[layer] for layer, update in self._updates.items()}

    def details(self) -> dict[str, Any]:
        """Return the passes, and the edits that were never written, with a warning."""
        upper = self.work.context["upper"]
        skipped = sorted(self.far.keys() - self.written)
        far = {self.targets.rewrites[at].id: self.far[at] for at in skipped}
        found: dict[str, Any] = {"passes": self.made, "above_upper": far}
        if far:
            found["warning"] = f"{len(far)} edits were not written: |z - h| is at least {upper:.3g}, the option upper"
        return found


def most_active(keys: Tensor, p: float) -> Tensor:
    """Return the neurons with the largest scores, at least one, whose sum is at most ``p`` of all; ascending indices.

    The score of a neuron, a row of ``keys`` [f, N], is the sum of its absolute activations. p = 1 selects every neuron.
    """
    if p == 1:
        return torch.arange(len(keys), device=keys.device)
    scores, order = double(keys).abs().sum(1).sort(descending=True, stable=True)
    count = int((scores.cumsum(0) <= p * scores.sum()).sum())
    return order[: max(count, 1)].to(keys.device).sort().values
