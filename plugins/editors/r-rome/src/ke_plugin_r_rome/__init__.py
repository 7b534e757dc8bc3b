"""Editor ``r-rome``: ROME with one key (Gupta et al., 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.plugin import Editor, EditorSpec, hookimpl
from ke_weights import RankOneConfig, single_layer_settings

CITE = (
    "Gupta, Baskaran, Anumanchipalli: Rebuilding ROME: Resolving Model Collapse during Sequential Model Editing. "
    "EMNLP 2024, https://arxiv.org/abs/2403.07175"
)


@frozen(kw_only=True)
class RRomeConfig(RankOneConfig):
    """The paper's hyperparameters. None means: the published value for this model, else derived from its shape."""

    key: Literal["contexts", "prompt"] = field(
        default="contexts", metadata={"help": "the one key: the average over left contexts, or that of the bare prompt"}
    )


def build(config: RRomeConfig) -> Editor:
    """The editor; imports torch."""
    from ke_plugin_r_rome.editor import RRome  # noqa: PLC0415  built late

    return RRome(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``r-rome``."""
    return [
        EditorSpec(
            name="r-rome",
            summary="ROME with one key in every place, so that no edit ruins the model",
            config=RRomeConfig,
            build=build,
            settings=single_layer_settings,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            one_at_a_time=True,
            edited_form="cloze",
        )
    ]
