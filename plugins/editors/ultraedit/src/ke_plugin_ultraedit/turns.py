"""One turn of UltraEdit: the statistics and the updates that a batch of edits makes of those before.

::

    for each mini-batch:          L = mean of -log p over its answer tokens
        for each linear map W:    H [T, in], G = dL/d(output) [T, out], at the positions that predict an answer token;
                                  add [H; G] to the running statistics of W's shape
    for each linear map W:        [h^; g^] = normalized [h; g];  v = -eta |h^|^2 g^
                                  S = (H^T H + I)^-1 H^T V;      W += S^T
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_plugin_ultraedit.normalizer import RunningStatistics
from ke_plugin_ultraedit.shifts import Features, shift, values
from ke_weights.plugin import (
    Delta,
    OpenModel,
    Rewrite,
    encode,
    frozen_module,
    layer_gradients,
    require_finite,
    scored_tokens,
    target_ids,
)

Statistics = Mapping[str, RunningStatistics]
"""By the shape of the linear maps that share them, such as 576x1536."""


@frozen(kw_only=True)
class TurnSettings:
    """The linear maps to change, eta, edits per mini-batch, and whether the variance is the released one."""

    names: tuple[str, ...]
    eta: float
    batch: int
    released: bool


@frozen(kw_only=True, eq=False)
class EditTurn:
    """The result of a turn: statistics after it, updates by the name of the linear map, and each edit's loss before."""

    statistics: Statistics
    updates: Mapping[str, Delta]
    losses: tuple[float, ...]


def make_turn(model: OpenModel, rewrites: Sequence[Rewrite], before: Statistics, settings: TurnSettings) -> EditTurn:
    """Return the turn of ``rewrites``; the model is unchanged. Raises EditFailed if a number is not finite."""
    statistics, losses = dict(before), list[float]()
    seen: dict[str, list[Features]] = {name: [] for name in settings.names}
    for found, nll in _batches(model, rewrites, settings):
        losses += nll.tolist()
        for name, features in found.items():
            seen[name].append(features)
            known = statistics.get(features.shape) or RunningStatistics.empty(features.joined)
            statistics[features.shape] = known.updated(features.joined, released=settings.released)
    updates: dict[str, Delta] = {}
    for name, parts in seen.items():
        features = Features.together(parts)
        if statistics[features.shape].count == 1:
            raise EditFailed(
                f"edit {rewrites[0].id!r} is the first one and has one answer token, so its features equal their mean",
                hint="make more edits at once, or change several linear maps of the same shape",
            )
        updates[name] = shift(features, values(features, statistics[features.shape], settings.eta))
    return EditTurn(statistics=statistics, updates=updates, losses=tuple(losses))


def _batches(
    model: OpenModel, rewrites: Sequence[Rewrite], settings: TurnSettings
) -> Iterator[tuple[dict[str, Features], Tensor]]:
    """Yield the features of each linear map, and the losses of the edits, mini-batch by mini-batch."""
    for start in range(0, len(rewrites), settings.batch):
        group = rewrites[start : start + settings.batch]
        with frozen_module(model.module), torch.enable_grad():
            found, losses = _features(model, group, settings.names)
        require_finite(losses, [made.id for made in group], "before editing")
        tokens = len(next(iter(found.values())).h)
        if settings.released and tokens == 1:
            raise EditFailed(
                f"edit {group[0].id!r} has one answer token in its mini-batch, whose released variance is NaN",
                hint="use -o ultraedit.profile=default, or make more edits at once",
            )
        yield found, losses


def _features(
    model: OpenModel, rewrites: Sequence[Rewrite], names: Sequence[str]
) -> tuple[dict[str, Features], Tensor]:
    """Return the features of each linear map at the answer positions, and the loss of each edit."""
    tokenizer: Any = model.tokenizer
    rows = [(encode(tokenizer, one.prompt)[0], target_ids(tokenizer, one.prompt, one.target)) for one in rewrites]
    batch = scored_tokens(rows, model.device)
    made = layer_gradients(model.module, names, batch)
    # The gradient is that of the sum of the rows' means. The mean over all tokens weights a row by its tokens.
    share = 1 / (batch.weight * len(batch.row))
    found = {}
    for name in names:
        h, g = batch.pick(made.inputs[name]), batch.pick(made.gradients[name])
        found[name] = Features(h=h, g=g * share.to(g.dtype).to(g.device)[:, None])
        if not bool(h.isfinite().all() and g.isfinite().all()):
            raise EditFailed(
                f"the input or the gradient of {name} is not finite for an edit from {rewrites[0].id!r} on",
                hint="load the model with --dtype float32",
            )
    return found, made.losses
