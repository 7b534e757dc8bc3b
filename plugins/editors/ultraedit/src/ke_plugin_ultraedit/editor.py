"""The editor, and its edited model, which takes further turns and can be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ke_core.plugin import Edit, Edited, PassthroughModel, Session, Setting, UnsupportedChange
from ke_plugin_ultraedit import UltraEditConfig, derive
from ke_plugin_ultraedit.saved import (
    SavedTurns,
    load_turns,
    save_turns,
    set_weight,
    weight_of,
    weights_restored_on_error,
)
from ke_plugin_ultraedit.turns import Statistics, TurnSettings, make_turn
from ke_weights import as_details
from ke_weights.plugin import (
    Dense,
    OpenModel,
    Patch,
    StatefulEditor,
    as_rewrites,
    find_parts,
    frobenius,
    model_facts,
    named_maps,
    uninterruptible_context,
)


class UltraEditedModel(PassthroughModel):
    """A model with the edits of one or more turns in its weights."""

    def __init__(self, session: Session[OpenModel], values: Mapping[str, Setting], settings: TurnSettings) -> None:
        super().__init__(session)
        self.session, self.values, self.settings = session, values, settings
        self.weights: Patch
        self.statistics: Statistics = {}
        self.edits = self.turns = 0

    def continued(self, session: Session[OpenModel]) -> UltraEditedModel:
        """Return another edited model with the same settings and statistics."""
        other = UltraEditedModel(session, self.values, self.settings)
        other.statistics, other.edits, other.turns = self.statistics, self.edits, self.turns
        return other

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Make a turn of the edits ``add``: all or none. Raises UnsupportedChange for ``remove``."""
        if remove:
            raise UnsupportedChange(
                f"{len(remove)} edits cannot be removed: they are in the model's weights",
                hint="apply the list of edits again without them",
            )
        if not add:
            return
        model = self.session.model
        rewrites = as_rewrites(add, model.tokenizer, model.context)
        turn = make_turn(model, rewrites, self.statistics, self.settings)
        norms: dict[str, float] = {}
        with weights_restored_on_error(self.weights, model.module, [*turn.updates]):
            for name, update in turn.updates.items():  # the patch may hold earlier turns: it cannot measure this one
                norms[name] = frobenius(update) / frobenius(Dense(delta=weight_of(model.module, name)))
                self.weights.add(f"{name}.weight", update)
        self.statistics, self.edits, self.turns = turn.statistics, self.edits + len(add), self.turns + 1
        self._details = {
            "hyperparameters": as_details(self.values),
            "turn": self.turns,
            "edits_so_far": self.edits,
            "tokens_in_statistics": {shape: found.count for shape, found in self.statistics.items()},
            "relative_update_norms": norms,
            "edits": {made.id: {"nll": loss} for made, loss in zip(rewrites, turn.losses, strict=True)},
        }

    def save(self, path: Path) -> None:
        """Write the changed weights and the statistics to the file ``path``."""
        module = self.session.model.module
        weights = {name: weight_of(module, name) for name in self.settings.names}
        save_turns(path, SavedTurns(weights=weights, statistics=self.statistics, edits=self.edits, turns=self.turns))

    def restore(self, path: Path) -> None:
        """Continue from a file of ``save``. Raises BadData if it does not fit."""
        model = self.session.model
        saved = load_turns(path, model.module, self.settings.names, model.device)
        for name, weight in saved.weights.items():
            set_weight(self.weights, model.module, name, weight)
        self.statistics, self.edits, self.turns = saved.statistics, saved.edits, saved.turns


class UltraEdit(StatefulEditor):
    """Editor that changes linear maps of the MLPs, turn by turn."""

    def __init__(self, config: UltraEditConfig) -> None:
        self.config = config
        self._open: dict[int, list[UltraEditedModel]] = {}
        """By the id of a model, its active edits, the innermost last."""

    def room(self, model: OpenModel) -> int:
        """Return the context: edits are trained on the plain prompt, also for a model with a chat format."""
        return model.context

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make a turn of ``edits``. Inside another edit of this model, it continues its statistics.

        Raises UnsupportedEdit and EditFailed.
        """
        if not edits:
            yield PassthroughModel(session)
            return
        with super().edit(session, edits) as edited:
            yield edited

    @contextmanager
    def opened(self, session: Session[OpenModel]) -> Iterator[UltraEditedModel]:
        """Return the edited model without a new turn."""
        others = self._open.get(id(session.model))
        edited = others[-1].continued(session) if others else UltraEditedModel(session, *self.resolve(session))
        with session.model.patch() as edited.weights, self._kept_open(edited):
            yield edited

    @uninterruptible_context
    def _kept_open(self, edited: UltraEditedModel) -> Iterator[None]:
        """Let edits of the same model inside the block continue ``edited``."""
        key = id(edited.session.model)
        others = self._open.setdefault(key, [])
        others.append(edited)
        try:
            yield
        finally:
            others.remove(edited)
            if not others:
                del self._open[key]

    def resolve(self, session: Session[OpenModel]) -> tuple[Mapping[str, Setting], TurnSettings]:
        """Return hyperparameters. Raises a KEError for quantized weights and for missing linear maps."""
        modules = find_parts(session.model.module)
        values = derive(self.config, model_facts(session, modules))
        return values, TurnSettings(
            names=named_maps(modules, values["modules"].value, "ultraedit"),
            eta=values["eta"].value,
            batch=self.config.batch,
            released=self.config.profile == "paper",
        )
