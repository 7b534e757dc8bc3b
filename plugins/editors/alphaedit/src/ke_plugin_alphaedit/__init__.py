"""Editor ``alphaedit``: null-space constrained knowledge editing (Fang et al., ICLR 2025)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import MultiLayerConfig, derived, positive

CITE = (
    "Fang, Jiang, Wang, Ma, Shi, Wang, He, Chua: AlphaEdit: Null-Space Constrained Knowledge Editing for Language "
    "Models. ICLR 2025, https://arxiv.org/abs/2410.02355"
)


@frozen(kw_only=True)
class AlphaEditConfig(MultiLayerConfig):
    """The paper's hyperparameters. None means: the published value for this model, else derived from its shape."""

    nullspace_threshold: float | None = derived(
        "eigenvalues of the second moments below which a direction may be written to", positive
    )
    l2: float | None = derived("weight of |update|^2 against the edits", positive)


def settings(config: AlphaEditConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model."""
    from ke_plugin_alphaedit.derive import derive  # noqa: PLC0415  read when a model is at hand

    return derive(config, facts)


def build(config: AlphaEditConfig) -> Editor:
    """The editor; imports torch."""
    from ke_plugin_alphaedit.editor import AlphaEdit  # noqa: PLC0415  built late

    return AlphaEdit(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``alphaedit``."""
    return [
        EditorSpec(
            name="alphaedit",
            summary="MEMIT, with updates that leave the directions of common keys alone, and earlier edits too",
            config=AlphaEditConfig,
            build=build,
            settings=settings,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
