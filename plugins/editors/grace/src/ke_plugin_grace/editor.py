"""The editor, and its edited model, which learns further edits, forgets edits, and can be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from torch import nn

from ke_core.plugin import Details, Edit, PassthroughModel, Session, Setting
from ke_plugin_grace.codebook import Codebook, PlacementRules, place
from ke_plugin_grace.history import LearnedEdit, load_history, save_history, undone
from ke_plugin_grace.layer import FUNCTIONS, key_and_output
from ke_plugin_grace.training import EditTokens, cold_value, train_value
from ke_plugin_grace.values import GraceConfig, settings
from ke_weights import as_details
from ke_weights.plugin import (
    Adaptor,
    ModuleMap,
    OpenModel,
    Rewrite,
    StatefulEditor,
    answer_ids,
    as_rewrites,
    edit_change,
    edit_room,
    find_parts,
    map_orientation,
    model_facts,
    restored_on_error,
    rewrite,
    training_rows,
)


@frozen(kw_only=True)
class GraceSettings:
    """The hyperparameters with their reasons, the name of the adapted layer, and the rules of the codebook."""

    values: Mapping[str, Setting]
    modules: ModuleMap
    layer: str
    warm: bool
    rules: PlacementRules


class GraceModel(PassthroughModel):
    """The edited model. The state of its adaptor is the codebook."""

    def __init__(self, session: Session[OpenModel], made: GraceSettings, adaptor: Adaptor) -> None:
        super().__init__(session)
        self.session, self.made, self.adaptor = session, made, adaptor
        self.learned: tuple[LearnedEdit, ...] = ()
        self._described: dict[str, Any] = {}

    @property
    def details(self) -> Details:
        """The hyperparameters, the number of entries, and the edits of the latest change."""
        book = self.codebook
        return {
            "hyperparameters": as_details(self.made.values),
            "entries": 0 if book is None else len(book),
            "edits": self._described,
        }

    @property
    def codebook(self) -> Codebook | None:
        """The codebook; None without an entry."""
        return Codebook.of(self.adaptor.state)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Learn the edits ``add``, and forget those called ``remove``: all or none.

        An edit that is in effect already is not learned again. Edits are undone from the latest one on. Those that were
        learned after a removed one are learned again. Raises UnsupportedChange for an unknown name, UnsupportedEdit and
        EditFailed.
        """
        model = self.session.model
        as_rewrites(add, model.tokenizer, edit_room(model))  # raises for an edit that cannot be made
        change = edit_change([(one.edit,) for one in self.learned], add, remove)
        learned, described = list(self.learned[: change.kept]), dict[str, Any]()
        with restored_on_error(self.adaptor):
            book = undone(self.codebook, self.learned[change.kept :])
            for edit in self.session.progress.track(change.todo, "learning edits"):
                book = self._learn(book, edit, learned, described)
            self.adaptor.replace_state({} if book is None else book.state)
        self.learned, self._described = tuple(learned), described

    def save(self, path: Path) -> None:
        """Write the codebook, its edits and the seed to the file ``path``."""
        save_history(path, self.codebook, self.learned, self.session.seed)

    def restore(self, path: Path) -> None:
        """Continue from a file of ``save``, with its seed. Raises BadData if it does not fit."""
        module = self.session.model.module.get_submodule(self.made.layer)
        book, self.learned, seed = load_history(path, module.get_parameter("weight").device, sizes(module))
        self.session = evolve(self.session, seed=seed)
        self.adaptor.replace_state({} if book is None else book.state)

    def _learn(
        self, book: Codebook | None, edit: Edit, learned: list[LearnedEdit], described: dict[str, Any]
    ) -> Codebook:
        """Return the codebook with ``edit``: place its entry, and train the value."""
        model, made = self.session.model, self.made
        tokens = tokens_of(model, rewrite(edit))
        self.adaptor.replace_state({})  # the layer's own output
        key, output = key_and_output(model.module, made.layer, tokens.prompt, model.device)
        value = output if made.warm else cold_value(len(output), self.session.seed, tokens, output.device)
        placed = place(book, Codebook.entry(key, value, made.rules.eps, tokens.target), tokens.target, made.rules)
        trained = train_value(
            training_rows(
                made.modules, [(tokens.prompt, tokens.target)], made.values["layer"].value, whole=bool(model.adaptors)
            ),
            self.adaptor,
            placed.codebook,
            placed.entry,
            tokens,
            steps=made.values["steps"].value,
            lr=made.values["lr"].value,
        )
        learned.append(LearnedEdit(edit=edit, entries=0 if book is None else len(book), changed=placed.changed))
        described[edit.id] = {
            "entry": placed.entry,
            "placement": placed.placement,
            "distance": placed.distance,
            "loss_before": trained.before,
            "loss_after": trained.after,
        }
        return placed.codebook.with_value(placed.entry, trained.value)


class Grace(StatefulEditor):
    """Editor with a codebook in one linear map of one MLP."""

    def __init__(self, config: GraceConfig) -> None:
        self.config = config

    @contextmanager
    def opened(self, session: Session[OpenModel]) -> Iterator[GraceModel]:
        """Open an empty codebook."""
        made = self.resolve(session)
        function = FUNCTIONS[made.values["replacement"].value]
        with session.model.adapt(made.layer, function, {}) as adaptor:
            yield GraceModel(session, made, adaptor)

    def resolve(self, session: Session[OpenModel]) -> GraceSettings:
        """Return hyperparameters and layer. Raises a KEError for a missing layer."""
        modules = find_parts(session.model.module)
        values = settings(self.config, model_facts(session, modules))
        modules.check_layers((values["layer"].value,))
        rules = PlacementRules(
            eps=values["eps"].value,
            moving=self.config.expand == "moving-average",
            published=self.config.profile == "paper",
            rounding=modules.rounding,
        )
        return GraceSettings(
            values=values,
            modules=modules,
            layer=modules.layers[values["layer"].value].map_name(values["part"].value),
            warm=self.config.init == "warm",
            rules=rules,
        )


def tokens_of(model: OpenModel, made: Rewrite) -> EditTokens:
    """Return the tokens of an edit, with its prompt as the model reads it to answer."""
    target = answer_ids(model, made.prompt, made.target)
    return EditTokens(id=made.id, prompt=tuple(model.encode(made.prompt)), target=target)


def sizes(module: nn.Module) -> tuple[int, int]:
    """Return input and output size of a linear layer."""
    rows, columns = map_orientation(module, module.get_parameter("weight").detach()).shape
    return columns, rows
