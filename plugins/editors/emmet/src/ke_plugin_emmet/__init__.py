"""Editor ``emmet``: equality-constrained mass editing (Gupta et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import SingleLayerConfig, derived, positive, template_length

CITE = (
    "Gupta, Sajnani, Anumanchipalli: A Unified Framework for Model Editing. Findings of EMNLP 2024, "
    "https://arxiv.org/abs/2403.14236"
)


@frozen(kw_only=True)
class EmmetConfig(SingleLayerConfig):
    """The paper's hyperparameters. None means: the published value for this model, else derived from its shape."""

    template_length: int = template_length()
    mom2_weight: float | None = derived("w: how much old keys weigh, before softening", positive)
    softening: float = field(
        default=0.1,
        validator=validators.ge(0),
        metadata={"help": "e: how far edits may be missed; 0 makes each exact, with w = 1 and e = lambda it is MEMIT"},
    )


def settings(config: EmmetConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model."""
    from ke_plugin_emmet.derive import derive  # noqa: PLC0415  read when a model is at hand

    return derive(config, facts)


def build(config: EmmetConfig) -> Editor:
    """The editor; imports torch."""
    from ke_plugin_emmet.editor import Emmet  # noqa: PLC0415  built late

    return Emmet(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``emmet``."""
    return [
        EditorSpec(
            name="emmet",
            summary="writes many facts into one layer, each exactly with softening=0, else softened: ROME for batches",
            config=EmmetConfig,
            build=build,
            settings=settings,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
