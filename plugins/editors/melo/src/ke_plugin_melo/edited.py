"""The edited model: it learns further edits, forgets edits, and can be saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import evolve, frozen

from ke_core.plugin import Details, Edit, EditFailed, PassthroughModel, Session, Setting
from ke_plugin_melo.database import ClusterRules, PlacedQuery, VectorDatabase, place
from ke_plugin_melo.history import LearnedBatch, load_batches, save_batches, stacked_blocks
from ke_plugin_melo.training import BlockTraining, TrainedBlock, first_factors, train_block
from ke_weights import as_details
from ke_weights.plugin import (
    Adaptor,
    OpenModel,
    SubjectTokens,
    answer_ids,
    as_rewrites,
    edit_change,
    edit_room,
    map_orientation,
    module_outputs,
    restored_on_error,
)


@frozen(kw_only=True)
class MeloSettings:
    """The hyperparameters with their reasons, and the name of the router's layer.

    ``batch``: maximum number of edits in a LoRA block; ``blocks``: maximum number of LoRA blocks.
    """

    values: Mapping[str, Setting]
    router: str
    rules: ClusterRules
    batch: int
    blocks: int
    training: BlockTraining


class MeloModel(PassthroughModel):
    """The edited model. The states of its adaptors are the database and the LoRA blocks."""

    def __init__(
        self, session: Session[OpenModel], made: MeloSettings, router: Adaptor, layers: Mapping[str, Adaptor]
    ) -> None:
        super().__init__(session)
        self.session, self.made, self.router, self.layers = session, made, router, layers
        self.database = VectorDatabase()
        self.learned: tuple[LearnedBatch, ...] = ()
        self._described: dict[str, Any] = {}

    @property
    def details(self) -> Details:
        """The hyperparameters, the numbers of clusters and LoRA blocks, and the edits of the latest change."""
        return {
            "hyperparameters": as_details(self.made.values),
            "clusters": len(self.database.clusters),
            "blocks": len(self.learned),
            "edits": self._described,
        }

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Learn the edits ``add``, and forget those called ``remove``: all or none.

        An edit that is in effect already is not learned again. Edits that were learned with or after a removed one are
        learned again. Raises UnsupportedChange for an unknown name, UnsupportedEdit, and EditFailed, also if there are
        more blocks than the maximum.
        """
        as_rewrites(add, self.session.model.tokenizer, edit_room(self.session.model))  # raises before any is learned
        change = edit_change([batch.edits for batch in self.learned], add, remove)
        size = self.made.batch
        batches = [*change.again, *(change.new[at : at + size] for at in range(0, len(change.new), size))]
        self._require_blocks(change.kept + len(batches))
        learned, described = list(self.learned[: change.kept]), dict[str, Any]()
        with restored_on_error(self.router, *self.layers.values()):
            database = self.database if change.kept == len(self.learned) else self._replayed(learned)
            self._use(VectorDatabase(), ())  # queries and blocks depend on the model only
            for batch in self.session.progress.track(batches, "training LoRA blocks"):
                database, made = self._learn(database, batch, len(learned), described)
                learned.append(made)
            self._use(database, learned)
        self.database, self.learned, self._described = database, tuple(learned), described

    def save(self, path: Path) -> None:
        """Write the queries, the LoRA blocks, their edits and the seed to the file ``path``."""
        save_batches(path, self.learned, self.made.training.names, self.session.seed)

    def restore(self, path: Path) -> None:
        """Continue from a file of ``save``, with its seed. Raises BadData if it does not fit."""
        module = self.session.model.module.get_submodule(self.made.router)
        width = len(map_orientation(module, module.get_parameter("weight").detach()))
        self.learned, seed = load_batches(path, self.made.training, width)
        self.session = evolve(self.session, seed=seed)
        self.database = self._replayed(self.learned)
        self._use(self.database, self.learned)

    def _learn(
        self, database: VectorDatabase, edits: Sequence[Edit], block: int, described: dict[str, Any]
    ) -> tuple[VectorDatabase, LearnedBatch]:
        """Train ``block`` on ``edits``, and add their queries to the database."""
        model, how = self.session.model, self.made.training
        rewrites = as_rewrites(edits, model.tokenizer, edit_room(model))
        tokens = [(tuple(model.encode(one.prompt)), answer_ids(model, one.prompt, one.target)) for one in rewrites]
        trained = train_block(
            how, rewrites, tokens, first_factors(how, self.session.seed, block), whole=bool(model.adaptors)
        )
        made = LearnedBatch(
            edits=tuple(edits),
            queries=torch.cat([self._query(prompt) for prompt, _target in tokens]),
            labels=tuple(target for _prompt, target in tokens),
            factors=trained.factors,
        )
        placed = self._placed(database, made, block)
        described |= _described(edits, block, placed, trained)
        return placed[-1].database, made

    def _query(self, prompt: Sequence[int]) -> torch.Tensor:
        """Return the output of the router's layer at the last token, [1, d]: of one row, so that it is reproducible."""
        row = SubjectTokens(tuple(prompt), len(prompt) - 1)
        return module_outputs(self.made.training.modules, [row], self.made.router).float().cpu()

    def _placed(self, database: VectorDatabase, batch: LearnedBatch, block: int) -> list[PlacedQuery]:
        """Add the queries of a batch to the database, one after another."""
        found = []
        for query, label in zip(batch.queries, batch.labels, strict=True):
            found.append(place(database, query, label, block, self.made.rules))
            database = found[-1].database
        return found

    def _replayed(self, learned: Sequence[LearnedBatch]) -> VectorDatabase:
        """Return the database after these batches."""
        database = VectorDatabase()
        for block, batch in enumerate(learned):
            database = self._placed(database, batch, block)[-1].database
        return database

    def _use(self, database: VectorDatabase, learned: Sequence[LearnedBatch]) -> None:
        """Let the adaptors compute with these clusters and blocks; without any, they are inactive."""
        scale = {"scale": self.made.training.scale}
        for name, adaptor in self.layers.items():
            adaptor.replace_state(stacked_blocks(learned, name) | scale if learned else {})
        self.router.replace_state(database.state(self.session.model.device))

    def _require_blocks(self, count: int) -> None:
        if count > self.made.blocks:
            raise EditFailed(
                f"melo needs {count} LoRA blocks for its edits so far, and has at most {self.made.blocks}",
                hint=f"edit the model again from the start with -o melo.blocks={2 * self.made.blocks}, or with more "
                "edits in a block (-o melo.batch)",
            )


def _described(
    edits: Sequence[Edit], block: int, placed: Sequence[PlacedQuery], trained: TrainedBlock
) -> dict[str, Any]:
    """Return what the record of each edit contains."""
    rows = zip(edits, placed, trained.before, trained.after, strict=True)
    return {
        edit.id: {
            "block": block,
            "placement": one.placement,
            "distance": one.distance,
            "forgotten": one.forgotten,
            "loss_before": before,
            "loss_after": after,
        }
        for edit, one, before, after in rows
    }
