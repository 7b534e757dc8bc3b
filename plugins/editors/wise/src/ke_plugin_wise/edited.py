"""The edited model: it takes further edits and can be saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadData, Edit, PassthroughModel, Session, from_json, loads, to_json
from ke_plugin_wise.inputs import TrainingTexts, room, seed_of, training_texts
from ke_plugin_wise.memories import SideMemories, SideMemory, read_memories
from ke_plugin_wise.resolved import ResolvedWise
from ke_plugin_wise.routing import ACTIVATIONS, memory_name
from ke_plugin_wise.training import Learned, edit_rows, learn, shard_mask
from ke_weights import as_details
from ke_weights.plugin import (
    AS_SAVED,
    Adaptor,
    OpenModel,
    Rewrite,
    as_rewrites,
    edit_change,
    load_state,
    restored_on_error,
    rewrite,
    save_state,
)


class SideMemoryModel(PassthroughModel):
    """A model with side memories. ``edits`` by id, in order."""

    def __init__(self, session: Session[OpenModel], found: ResolvedWise, adaptor: Adaptor) -> None:
        super().__init__(session)
        self.session, self.found, self.adaptor = session, found, adaptor
        self.memories = SideMemories()
        self.edits: dict[str, Edit] = {}
        self._texts: TrainingTexts | None = None

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Learn the edits in ``add`` that are not in effect. If any is removed, learn the others again from the start.

        Raises UnsupportedChange for an unknown name, UnsupportedEdit and EditFailed.
        """
        self._check(add)
        change = edit_change([tuple(self.edits.values())], add, remove)
        memories, edits = (self.memories, self.edits) if change.kept else (SideMemories(), {})
        learned: dict[str, Learned] = {}
        with restored_on_error(self.adaptor):
            self.adaptor.replace_state({})  # a memory is trained on the model without side memories
            for edit in self.session.progress.track(change.todo, "training side memories"):
                memories, learned[edit.id] = self._learn(memories, rewrite(edit))
            self.adaptor.replace_state(self._state(memories))
        self.memories, self.edits = memories, edits | {edit.id: edit for edit in change.todo}
        self._details = self._described(learned)

    def _check(self, edits: Sequence[Edit]) -> None:
        """Raise UnsupportedEdit for the first edit that cannot be made."""
        model = self.session.model
        as_rewrites(edits, model.tokenizer, room(model, self.found.contexts))

    def _learn(self, memories: SideMemories, wanted: Rewrite) -> tuple[SideMemories, Learned]:
        """Train the open memory on one edit."""
        model, place, settings = self.session.model, self.found.place, self.found.training
        inputs = self.texts.of(model, wanted, self.session.seed, memories.count)
        rows = edit_rows(
            place,
            inputs.prompts,
            inputs.target,
            inputs.unrelated,
            released=settings.released,
            whole=bool(model.adaptors),  # of other edits
        )
        weight = place.matrix
        shard = memories.count // self.found.sharding.save_freq
        seed = seed_of(self.session.seed, "mask", shard)
        mask = shard_mask(weight.shape, self.found.mask_ratio, seed, weight.device)
        start = (
            torch.zeros(weight.shape, dtype=place.modules.dtype, device=weight.device)
            if memories.open is None
            else memories.open.difference
        )
        learned = learn(place, rows, start, mask, settings, edit=wanted.id)
        memory = SideMemory(learned.difference, learned.inside)
        return memories.after(memory, self.found.sharding, weight.dtype), learned

    @property
    def texts(self) -> TrainingTexts:
        """The left contexts and documents of training, read at the first edit."""
        if self._texts is None:
            self._texts = training_texts(self.session, self.found.contexts, self.found.corpus)
        return self._texts

    def _state(self, memories: SideMemories) -> dict[str, Tensor]:
        """Return the state of the forward function: empty without edits."""
        used = memories.used(self.found.sharding)
        if not used:
            return {}
        settings, device = self.found.training, self.found.place.matrix.device
        thresholds = [self.found.act_ratio * memory.activation for memory in used]
        state = {memory_name(at): memory.difference for at, memory in enumerate(used)}
        state |= {
            "thresholds": torch.tensor(thresholds, dtype=torch.float32, device=device),
            "activation": torch.tensor(ACTIVATIONS.index(settings.activation), dtype=torch.int64),
            "released": torch.tensor(int(settings.released), dtype=torch.int64),
        }
        return state if self.found.place.bias is None else state | {"bias": self.found.place.bias}

    def _described(self, learned: Mapping[str, Learned]) -> dict[str, Any]:
        """Return the details of the record: of the edits made last, so that it does not grow with the sequence."""
        return {
            "hyperparameters": as_details(self.found.values),
            "edits_so_far": self.memories.count,
            "thresholds": self.adaptor.state["thresholds"].tolist() if self.adaptor.state else [],
            "edits": {
                name: {"loss": one.loss, "steps": one.steps, "score": one.inside, "score_unrelated": one.outside}
                for name, one in learned.items()
            },
        }

    def save(self, path: Path) -> None:
        """Write the side memories, the edits in them and the seed to the file ``path``."""
        edits = {name: to_json(edit) for name, edit in self.edits.items()}
        about = {"count": self.memories.count, "seed": self.session.seed, "edits": edits}
        save_state(path, self.memories.tensors(), {"wise": json.dumps(about)})

    def restore(self, path: Path) -> None:
        """Continue from a file of ``save``, with its seed. Raises BadData if it does not fit."""
        place = self.found.place
        tensors, about = load_state(path, place.matrix.device)
        for name, tensor in tensors.items():
            if not name.endswith("activations") and tensor.shape != place.matrix.shape:
                raise BadData(f"{path} has side memories of another shape than {place.name}", hint=AS_SAVED)
        raw = loads(about["wise"])
        memories = read_memories(tensors, raw["count"])
        self.adaptor.replace_state(self._state(memories))
        self.memories, self.session, self._texts = memories, evolve(self.session, seed=raw["seed"]), None
        self.edits = {name: from_json(one, Edit, of=str(path)) for name, one in raw["edits"].items()}
