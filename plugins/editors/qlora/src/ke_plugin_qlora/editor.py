"""QLoRA as an editor: the adapter is attached to the 4-bit weights while the edit is active."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from ke_core.plugin import BadConfig, Edit, Edited, PassthroughModel, Session, UnsupportedEdit
from ke_plugin_lora.adapter import quantization
from ke_plugin_lora.editor import record_losses, resolve_settings, trained_adapter
from ke_plugin_lora.training import Example, statement_examples, target_examples, unsupported_examples
from ke_plugin_qlora import QloraConfig
from ke_weights.plugin import NOT_QUANTIZED, OpenModel, unsupported_edits


class Qlora:
    """Editor that trains one adapter on a batch of edits and leaves it attached."""

    def __init__(self, config: QloraConfig) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without labels, too long, or contradicting an earlier one."""
        require_nf4(session.model.module)
        if not edits:
            resolve_settings(session, self.config)
        return self._refused(session.model, edits)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Apply ``edits`` together. Raises UnsupportedEdit, BadConfig, and EditFailed if a loss is not finite."""
        require_nf4(session.model.module)
        examples = self._examples(session, edits)
        if not examples:
            yield PassthroughModel(session)
            return
        with trained_adapter(session, examples, self.config) as (_adapter, details):
            record_losses(details, session.model, examples)
            yield PassthroughModel(session, details | {"loss": self.config.loss})

    def _examples(self, session: Session[OpenModel], edits: Sequence[Edit]) -> list[Example]:
        if self.config.loss == "target":
            return target_examples(session.model, edits)
        for name, reason in self._refused(session.model, edits).items():
            raise UnsupportedEdit(f"edit {name!r} cannot be trained: {reason}", hint="change its statement")
        return statement_examples(session.model.tokenizer, edits)

    def _refused(self, model: OpenModel, edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be trained together, with reasons. A statement needs no cloze."""
        if self.config.loss == "target":
            return unsupported_edits(edits, model.tokenizer, model.context)
        facts = [edit for edit in edits if edit.prompt and edit.target]
        stated = unsupported_examples(statement_examples(model.tokenizer, edits), model.context)
        return {**unsupported_edits(facts, model.tokenizer, model.context), **stated}


def require_nf4(module: nn.Module) -> None:
    """Raise BadConfig for a model in another dtype."""
    held = quantization(module)
    if held != "nf4":
        raise BadConfig(
            f"qlora needs a model in 4 bits, and the weights of this one are {held or 'not quantized'}",
            hint=NOT_QUANTIZED if held else "load it with --dtype nf4, or use --editor lora",
        )
