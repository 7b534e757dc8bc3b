"""Editor ``r-rome``: ROME with a single key (Gupta et al., 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_weights import RankOneConfig, single_layer_settings

CITE = (
    "Gupta, Baskaran, Anumanchipalli: Rebuilding ROME: Resolving Model Collapse during Sequential Model Editing. "
    "EMNLP 2024, https://arxiv.org/abs/2403.07175"
)


@frozen(kw_only=True)
class RRomeConfig(RankOneConfig):
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    key: Literal["contexts", "prompt"] = option(
        "the key to use: contexts = the average over left contexts, prompt = the key of the bare prompt", "contexts"
    )


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``r-rome``."""
    return [
        EditorSpec(
            name="r-rome",
            summary="ROME with one key in both parts of the update, against the collapse that single edits can cause",
            config=RRomeConfig,
            build="ke_plugin_r_rome.editor:RRome",
            settings=single_layer_settings,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            one_at_a_time=True,
            edited_form="cloze",
        )
    ]
