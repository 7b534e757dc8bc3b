"""Editor ``unke``: Unstructured Knowledge Editing (Deng et al., ICLR 2025)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import PUBLISHED_LONG_ANSWERS, BlockConfig, block_settings

CITE = (
    "Deng, Wei, Pang, Ding, Shen, Cheng: Everything is Editable: Extend Knowledge Editing to Unstructured Data in "
    "Large Language Models. ICLR 2025, https://arxiv.org/abs/2405.15349"
)


@frozen(kw_only=True)
class UnkeConfig(BlockConfig):
    """Options of ``unke``."""


def derive(config: UnkeConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter that depends on the model, with the reason for its value."""
    return block_settings(config, facts, PUBLISHED_LONG_ANSWERS)


def build(config: UnkeConfig) -> Editor:
    """Return the editor; imports torch."""
    from ke_plugin_unke.editor import Unke  # noqa: PLC0415  built late

    return Unke(config, derive)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``unke``."""
    return [
        EditorSpec(
            name="unke",
            summary="writes long answers: optimizes a hidden state at the end of the question, then trains one block",
            config=UnkeConfig,
            build=build,
            settings=derive,
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
        )
    ]
