"""QLoRA as an editor: the adapter stays beside the 4-bit weights for as long as the context is open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from ke_core.plugin import BadConfig, Edit, Edited, PassthroughModel, Session, UnsupportedEdit
from ke_plugin_lora.adapter import held_as
from ke_plugin_lora.editor import place, trained
from ke_plugin_lora.training import Example, objects, sentences, unfit
from ke_plugin_qlora import QloraConfig
from ke_weights.plugin import NOT_QUANTIZED, OpenModel, unsupported_edits


class Qlora:
    """Trains one adapter on a batch of edits and leaves it attached."""

    def __init__(self, config: QloraConfig) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits that lack what is to be learned, are too long, or contradict an earlier one."""
        must_be_nf4(session.model.module)
        if not edits:
            place(session, self.config)
        return self._refused(session.model, edits)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits`` together. Raises UnsupportedEdit, BadConfig, and EditFailed where the numbers go wrong."""
        must_be_nf4(session.model.module)
        examples = self._examples(session, edits)
        if not examples:
            yield PassthroughModel(session)
            return
        with trained(session, examples, self.config) as (_adapter, details):
            yield PassthroughModel(session, details | {"loss": self.config.loss})

    def _examples(self, session: Session[OpenModel], edits: Sequence[Edit]) -> list[Example]:
        if self.config.loss == "target":
            return objects(session.model, edits)
        for name, reason in self._refused(session.model, edits).items():
            raise UnsupportedEdit(f"edit {name!r} cannot be learned: {reason}", hint="give it another statement")
        return sentences(session.model.tokenizer, edits)

    def _refused(self, model: OpenModel, edits: Sequence[Edit]) -> Mapping[str, str]:
        """Which edits cannot be learned together, and why. Of one that is a statement alone only that is looked at."""
        if self.config.loss == "target":
            return unsupported_edits(edits, model.tokenizer, model.context)
        facts = [edit for edit in edits if edit.prompt and edit.target]
        stated = unfit(sentences(model.tokenizer, edits), model.context)
        return {**unsupported_edits(facts, model.tokenizer, model.context), **stated}


def must_be_nf4(module: nn.Module) -> None:
    """Raise BadConfig for a model in another type."""
    held = held_as(module)
    if held != "nf4":
        raise BadConfig(
            f"qlora edits models in 4 bits, and the weights of this one are {held or 'not quantized'}",
            hint=NOT_QUANTIZED if held else "load it with --dtype nf4, or choose --editor lora",
        )
