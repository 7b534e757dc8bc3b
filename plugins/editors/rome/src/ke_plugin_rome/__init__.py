"""Editor ``rome``: Rank-One Model Editing (Meng et al., NeurIPS 2022)."""

from __future__ import annotations

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_weights import RankOneConfig, single_layer_settings

CITE = (
    "Meng, Bau, Andonian, Belinkov: Locating and Editing Factual Associations in GPT. NeurIPS 2022, "
    "https://arxiv.org/abs/2202.05262"
)


@frozen(kw_only=True)
class RomeConfig(RankOneConfig):
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    min_cosine: float = option(
        "refuse an edit if the cosine of the bare key and the averaged key, under C^-1, is lower", 0.1, validators.ge(0)
    )


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``rome``."""
    return [
        EditorSpec(
            name="rome",
            summary="writes one fact into one MLP weight with a rank-one update",
            config=RomeConfig,
            build="ke_plugin_rome.editor:Rome",
            settings=single_layer_settings,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            one_at_a_time=True,
            edited_form="cloze",
        )
    ]
