"""Editing with a trained hypernetwork. Each model has its own network, which ``ke train`` wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from attrs import frozen
from torch import Tensor, nn

from ke_core.plugin import BadConfig, Edit, Edited, PassthroughModel, Session
from ke_plugin_hf.guard import Delta, Patch
from ke_plugin_hf.model import HFModel
from ke_weights.hypernetwork.network import Hypernetwork, load_network
from ke_weights.open_models import OpenModels
from ke_weights.rewrites import Rewrite, as_rewrites, unsupported_edits
from ke_weights.trained import Checkpoint, checkpoint_digest, read_checkpoint, trained_folder


class CheckpointConfig(Protocol):
    """Options that have the folder of a checkpoint; empty: the one in the cache."""

    @property
    def checkpoint(self) -> str:
        """The folder."""


N = TypeVar("N", bound=Hypernetwork)
C = TypeVar("C", bound=CheckpointConfig)


@frozen(kw_only=True, eq=False)
class TrainedNetwork(Generic[N]):
    """A network for the session's model, and its checkpoint."""

    network: N
    checkpoint: Checkpoint


class HypernetworkEditor(ABC, Generic[N, C]):
    """Editor that adds the updates of a trained network. ``name``: the editor's name."""

    name: ClassVar[str]

    def __init__(self, config: C) -> None:
        self.config = config
        self._open: OpenModels[TrainedNetwork[N]] = OpenModels()
        """By the id of a model with active edits of this editor, whose digest has changed."""

    @abstractmethod
    def untrained(self, module: nn.Module, recipe: Mapping[str, Any]) -> N:
        """Return the network before training. ``recipe``: the settings of its training."""

    @abstractmethod
    def write(
        self, model: HFModel, trained: TrainedNetwork[N], rewrites: Sequence[Rewrite], weights: Patch
    ) -> dict[str, Any]:
        """Compute and add the updates. Return the details for the record."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without a cloze or a new object, too long, or contradicting an earlier one.

        Without edits: raise BadConfig without a trained network for this model.
        """
        if not edits and session.model not in self._open:
            self.trained(session)
        return unsupported_edits(edits, session.model.tokenizer, session.model.context)

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """Return the digest of the trained network."""
        return {"network": checkpoint_digest(self._folder(session))}

    @contextmanager
    def edit(self, session: Session[HFModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Apply ``edits`` together, from their gradients on the current model.

        Raises BadConfig without a trained network for this model, UnsupportedEdit, EditFailed.
        """
        rewrites = as_rewrites(edits, session.model.tokenizer, session.model.context)
        if not rewrites:
            yield PassthroughModel(session)
            return
        opened = self._open.opened(session.model, lambda: self.trained(session))
        with opened as trained, session.model.patch() as weights:
            yield PassthroughModel(session, self.write(session.model, trained, rewrites, weights))

    def _folder(self, session: Session[HFModel]) -> Path:
        given = self.config.checkpoint
        return Path(given).expanduser() if given else trained_folder(session.artifacts, self.name, place_of(session))

    def trained(self, session: Session[HFModel]) -> TrainedNetwork[N]:
        """Return the network of the options, else the one in the cache. Raises BadConfig if it does not fit."""
        place, given, folder = place_of(session), self.config.checkpoint, self._folder(session)
        found = read_checkpoint(folder)
        how = f"ke train {self.name} --model {session.model.id} --data FILE --minutes 30"
        if found is None:
            where = f"in {folder}" if given else f"for {session.model.id} (weights {place['model'][:12]})"
            raise BadConfig(f"{self.name} needs a trained network: none found {where}", hint=f"train one with {how}")
        if found.about.get("editor") != self.name:
            raise BadConfig(
                f"{folder} was trained for {found.about.get('editor')}, not for {self.name}",
                hint=f"train one with {how}",
            )
        if dict(found.about["place"]) != place:
            raise BadConfig(
                f"the network in {folder} was trained for other weights: {found.about['model']} "
                f"({found.about['place']['model'][:12]}), not {session.model.id} ({place['model'][:12]})",
                hint=f"use the model and dtype that it was trained for, or train another with {how} --out FOLDER",
            )
        network = self.untrained(session.model.module, found.about["recipe"])
        load_network(network, found.tensors)
        return TrainedNetwork(network=network.requires_grad_(requires_grad=False), checkpoint=found)


def place_of(session: Session[Any]) -> dict[str, str]:
    """Return what a network belongs to: the model's weights."""
    return {"model": session.model.plain.digest}


def add_updates(weights: Patch, updates: Mapping[str, Delta]) -> dict[str, float | None]:
    """Add the update of every layer. Return each norm relative to its weight's."""
    norms: dict[str, float | None] = {}
    for name, update in updates.items():
        weight = f"{name}.weight"
        weights.add(weight, update)
        norms[weight] = weights.relative_norm(weight)
    return norms


def edit_details(
    checkpoint: Checkpoint, rewrites: Sequence[Rewrite], losses: Tensor, norms: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return JSON values for the record: the network, the norms of the updates, and the losses before editing."""
    return {
        "trained": {"step": checkpoint.step, "minutes": checkpoint.seconds / 60, **checkpoint.about},
        "relative_update_norms": dict(norms),
        "edits": {made.id: {"nll": float(loss)} for made, loss in zip(rewrites, losses, strict=True)},
    }
