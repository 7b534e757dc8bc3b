"""Base class of editors whose targets are long texts without a subject (UnKE, AnyEdit)."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from attrs import frozen

from ke_core.plugin import BadConfig, Details, Edit, Edited, ModelFacts, PassthroughModel, Session, Setting, digest
from ke_plugin_hf.guard import Dense, Patch, quantized
from ke_weights.answer_states import AnswerStates, answer_states
from ke_weights.block_training import BlockSettings, train_block
from ke_weights.corpus import read_corpus
from ke_weights.facts import model_facts
from ke_weights.hyperparameters import as_details
from ke_weights.long_answer_options import BlockConfig, LongTargetConfig
from ke_weights.modules import ModuleMap, module_map
from ke_weights.open_models import OpenModels
from ke_weights.optimize import TargetSettings
from ke_weights.rewrites import Rewrite, as_rewrites, unsupported_edits
from ke_weights.subject import edit_room, encode, end_of_sequence


@frozen(kw_only=True, eq=False)
class LongAnswers:
    """A batch of edits to write into ``weights``. Answers are optimized at the last of ``layers``.

    Contexts entered on ``closing`` are left when the edit ends.
    """

    session: Session[Any]
    config: LongTargetConfig
    modules: ModuleMap
    settings: Mapping[str, Setting]
    layers: tuple[int, ...]
    rewrites: Sequence[Rewrite]
    weights: Patch
    closing: ExitStack

    def __getitem__(self, name: str) -> Any:
        """The value of a hyperparameter."""
        return self.settings[name].value

    def optimized(self, *, window: int = 0, stop_loss: float = 0.0) -> list[AnswerStates]:
        """Optimize the states of each edit at the block, for windows of the answer; 0: for the whole answer."""
        chosen = {name: self[name] for name in ("steps", "lr", "weight_decay", "clamp")}
        targets = TargetSettings(layer=self.layers[-1], **chosen, kl=0.0, stop_loss=stop_loss)
        ending = end_of_sequence(self.session.model.tokenizer, "eos") if self.config.eos else ()
        return answer_states(self.session, self.modules, self.rewrites, targets, window=window, ending=ending)

    def details(self, norms: Mapping[str, float | None], states: Sequence[AnswerStates]) -> dict[str, Any]:
        """Return how the edits were made, as JSON values, for the record."""
        return {
            "hyperparameters": as_details(self.settings),
            "relative_update_norms": dict(norms),
            "edits": {one.id: one.report() for one in states},
        }


class LongAnswerEditor(ABC):
    """An editor defined by its ``write`` method. ``resolve`` derives the hyperparameters, ``layers`` selects layers."""

    def __init__(
        self,
        config: LongTargetConfig,
        resolve: Callable[[Any, ModelFacts], Mapping[str, Setting]],
        layers: Callable[[Mapping[str, Setting]], tuple[int, ...]],
    ) -> None:
        self.config, self.resolve, self.layers = config, resolve, layers
        self._resolved: OpenModels[tuple[ModuleMap, Mapping[str, Setting]]] = OpenModels()

    @abstractmethod
    def write(self, work: LongAnswers) -> Details:
        """Write the edits into ``work.weights``. Return details for the record. Raises EditFailed."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be made, by id, with the reason.

        Without edits: raise a KEError for a model that cannot be edited with these options.
        """
        if not edits:
            self.resolved(session)
        return unsupported_edits(edits, session.model.tokenizer, self._room(session))

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Apply ``edits`` together. Raises UnsupportedEdit and EditFailed."""
        rewrites = as_rewrites(edits, session.model.tokenizer, self._room(session))
        if not rewrites:
            yield PassthroughModel(session)
            return
        with session.model.patch() as weights, ExitStack() as closing:
            yield PassthroughModel(session, self._write(session, rewrites, weights, closing))

    def _write(self, session: Session[Any], rewrites: Sequence[Rewrite], weights: Patch, closing: ExitStack) -> Details:
        resolved = self._resolved.opened(session.model.module, lambda: self.resolved(session))
        modules, settings = closing.enter_context(resolved)
        distinct = {made.id: made for made in rewrites}
        return self.write(
            LongAnswers(
                session=session,
                config=self.config,
                modules=modules,
                settings=settings,
                layers=self.layers(settings),
                rewrites=tuple(distinct.values()),
                weights=weights,
                closing=closing,
            )
        )

    def resolved(self, session: Session[Any]) -> tuple[ModuleMap, Mapping[str, Setting]]:
        """Return module map and hyperparameters. Raises a KEError for a model that cannot be edited."""
        modules = module_map(session.model.module)
        settings = self.resolve(self.config, model_facts(session, modules))
        layers = self.layers(settings)
        modules.check_layers(layers)
        if any(quantized(value) for layer in layers for value in modules.layers[layer].block.parameters()):
            raise BadConfig(
                "quantized weights cannot be edited", hint="load the model with --dtype float32 or bfloat16"
            )
        if self.config.eos:
            end_of_sequence(session.model.tokenizer, "eos")
        return modules, settings

    def _room(self, session: Session[Any]) -> int:
        """Return how many tokens prompt and target may have in addition to those of the chat format."""
        return edit_room(session.model) - self.config.eos


class BlockEditor(LongAnswerEditor):
    """Base class of methods that write long answers by training one block."""

    config: BlockConfig
    low_rank: ClassVar[bool] = False

    def __init__(self, config: BlockConfig, resolve: Callable[[Any, ModelFacts], Mapping[str, Setting]]) -> None:
        super().__init__(config, resolve, lambda found: (found["layer"].value,))

    def train(self, work: LongAnswers, states: Sequence[AnswerStates]) -> Details:
        """Train the block to output ``states``, and add its updates to the weights. Return details for the record."""
        config, keep = self.config, self._kept_rows(work)
        settings = BlockSettings(
            layer=work["layer"],
            steps=config.block_steps,
            lr=config.block_lr,
            weight_decay=config.block_decay,
            padding=config.profile == "paper",
        )
        made = train_block(work.modules, states, keep, settings, work.session.progress)
        for name, update in made.updates.items():
            work.weights.add(name, Dense(delta=update))
        norms = {name: work.weights.relative_norm(name) for name in made.updates}
        block = {"loss_before": made.before, "loss_after": made.after, "kept_rows": len(keep)}
        return work.details(norms, states) | {"block": block}

    def _kept_rows(self, work: LongAnswers) -> list[list[int]]:
        """Return rows of the corpus, sampled for these edits."""
        documents, model = read_corpus(self.config.corpus).documents, work.session.model
        seed = digest({"seed": work.session.seed, "edits": [made.id for made in work.rewrites]})
        count = min(self.config.keep, len(documents))
        chosen = random.Random(seed).sample(documents, count)  # noqa: S311  not for security
        longest = min(self.config.document_length, model.context)
        return [encode(model.tokenizer, document)[0][:longest] for document in chosen]
