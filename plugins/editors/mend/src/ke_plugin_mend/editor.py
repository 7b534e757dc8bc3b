"""Editing with a trained network: one forward and backward pass, one low-rank update per matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import BadConfig, Edit, Edited, PassthroughModel, Session
from ke_plugin_mend import MendConfig, Reduction
from ke_plugin_mend.factors import GradientFactors, factors
from ke_plugin_mend.network import Hypernetwork, load_network, new_network
from ke_weights import Checkpoint, checkpoint_digest, read_checkpoint, trained_folder
from ke_weights.plugin import (
    LowRank,
    OpenModel,
    Patch,
    Rewrite,
    as_rewrites,
    encode,
    frozen_module,
    scored_tokens,
    target_ids,
    uninterruptible_context,
    unsupported_edits,
)

CHUNK = 16
"""Edits whose gradients are computed in one pass."""


def _place(session: Session[OpenModel]) -> dict[str, str]:
    """Return the model that a network belongs to."""
    return {"model": session.model.plain.digest}


@frozen(kw_only=True, eq=False)
class TrainedHypernetwork:
    """A network for the session's model, and its checkpoint."""

    network: Hypernetwork
    checkpoint: Checkpoint


class Mend:
    """Editor that updates the MLPs of the last blocks; each model has its own network."""

    def __init__(self, config: MendConfig) -> None:
        self.config = config
        self._open: dict[int, TrainedHypernetwork] = {}
        """By the id of a model with active edits of this editor, whose digest has changed."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without a cloze or a new object, too long, or contradicting an earlier one.

        Without edits: raise BadConfig without a trained network for this model.
        """
        if not edits and id(session.model) not in self._open:
            self._trained(session)
        return unsupported_edits(edits, session.model.tokenizer, session.model.context)

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """Return the digest of the trained network."""
        return {"network": checkpoint_digest(self._folder(session))}

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Apply ``edits`` together, each from its gradient on the unedited model.

        Raises BadConfig without a trained network for this model, UnsupportedEdit, EditFailed.
        """
        rewrites = as_rewrites(edits, session.model.tokenizer, session.model.context)
        if not rewrites:
            yield PassthroughModel(session)
            return
        outermost = id(session.model) not in self._open
        trained = self._trained(session) if outermost else self._open[id(session.model)]
        with session.model.patch() as weights:
            made = self._write(session.model, trained, rewrites, weights)
            with self._kept_open(session.model, trained) if outermost else nullcontext():
                yield PassthroughModel(session, made)

    @uninterruptible_context
    def _kept_open(self, model: OpenModel, trained: TrainedHypernetwork) -> Iterator[None]:
        """Use ``trained`` for further edits of ``model`` while the block runs."""
        self._open[id(model)] = trained
        try:
            yield
        finally:
            del self._open[id(model)]

    def _write(
        self, model: OpenModel, trained: TrainedHypernetwork, rewrites: Sequence[Rewrite], weights: Patch
    ) -> dict[str, Any]:
        """Compute and add the updates. Return the details for the record."""
        losses, updates = compute_updates(model, trained.network, rewrites, self.config.reduction)
        return details(trained, rewrites, losses, add_updates(weights, updates, self.config.lr_scale))

    def _folder(self, session: Session[OpenModel]) -> Path:
        given = self.config.checkpoint
        return Path(given).expanduser() if given else trained_folder(session.artifacts, "mend", _place(session))

    def _trained(self, session: Session[OpenModel]) -> TrainedHypernetwork:
        """Return the network of the options, else the one in the cache. Raises BadConfig if it does not fit."""
        place, given, folder = _place(session), self.config.checkpoint, self._folder(session)
        found = read_checkpoint(folder)
        how = f"ke train mend --model {session.model.id} --data FILE --minutes 30"
        if found is None:
            where = f"in {folder}" if given else f"for {session.model.id} (weights {place['model'][:12]})"
            raise BadConfig(f"mend needs a trained network: none found {where}", hint=f"train one with {how}")
        if found.about.get("editor") != "mend":
            raise BadConfig(
                f"{folder} was trained for {found.about.get('editor')}, not for mend", hint=f"train one with {how}"
            )
        if dict(found.about["place"]) != place:
            raise BadConfig(
                f"the network in {folder} was trained for other weights: {found.about['model']} "
                f"({found.about['place']['model'][:12]}), not {session.model.id} ({place['model'][:12]})",
                hint=f"use the model and dtype that it was trained for, or train another with {how} --out FOLDER",
            )
        network = new_network(session.model.module, found.about["recipe"])
        load_network(network, found.tensors)
        return TrainedHypernetwork(network=network.requires_grad_(requires_grad=False), checkpoint=found)


def compute_updates(
    model: OpenModel, network: Hypernetwork, rewrites: Sequence[Rewrite], reduction: Reduction = "edit-sum"
) -> tuple[Tensor, dict[str, LowRank]]:
    """Return each edit's loss before editing [N], and the update of every layer from all tokens of all edits.

    The loss of an edit is the mean over its target's tokens, and the gradient is that of the sum over edits. With
    ``token-mean``, each edit is weighted by its fraction of all target tokens, which turns the sum into their mean.
    """
    seen: list[dict[str, GradientFactors]] = []
    losses: list[Tensor] = []
    rows = [
        (encode(model.tokenizer, made.prompt)[0], target_ids(model.tokenizer, made.prompt, made.target))
        for made in rewrites
    ]
    shares = _loss_weights([len(target) for _prompt, target in rows], reduction).to(model.device)
    with frozen_module(model.module), torch.enable_grad():
        for start in range(0, len(rows), CHUNK):
            batch = scored_tokens(rows[start : start + CHUNK], model.device)
            found, loss, _logits = factors(model.module, tuple(network.shapes), batch)
            seen.append({name: factor.scaled(shares[start:]) for name, factor in found.items()})
            losses.append(loss)
    updates = {}
    for name in network.shapes:
        pieces = [network.transform(name, found[name]) for found in seen]
        x, g = (torch.cat(parts) for parts in zip(*pieces, strict=True))
        updates[name] = LowRank(left=g.T, right=x)
    return torch.cat(losses), updates


def _loss_weights(lengths: Sequence[int], reduction: Reduction) -> Tensor:
    """Return the weight of each edit's loss, [N], given the number of its target's tokens."""
    if reduction == "edit-sum":
        return torch.ones(len(lengths), dtype=torch.float32)
    return torch.tensor([length / sum(lengths) for length in lengths], dtype=torch.float32)


def add_updates(weights: Patch, updates: Mapping[str, LowRank], scale: float) -> dict[str, float | None]:
    """Add every update, times ``scale``. Return each norm relative to its weight's."""
    norms: dict[str, float | None] = {}
    for name, update in updates.items():
        weight = f"{name}.weight"
        weights.add(weight, LowRank(left=scale * update.left, right=update.right))
        norms[weight] = weights.relative_norm(weight)
    return norms


def details(
    trained: TrainedHypernetwork, rewrites: Sequence[Rewrite], losses: Tensor, norms: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return JSON values for the record."""
    checkpoint = trained.checkpoint
    rates = trained.network.steps.tolist()
    return {
        "trained": {"step": checkpoint.step, "minutes": checkpoint.seconds / 60, **checkpoint.about},
        "step_sizes": dict(zip(trained.network.shapes, rates, strict=True)),
        "relative_update_norms": dict(norms),
        "edits": {made.id: {"nll": float(loss)} for made, loss in zip(rewrites, losses, strict=True)},
    }
