"""Editor ``mend``: Model Editor Networks with Gradient Decomposition (Mitchell et al., ICLR 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, ModelFacts, Setting, TrainerSpec, hookimpl, option
from ke_weights import derived, not_negative, positive

CITE = (
    "Mitchell, Lin, Bosselut, Finn, Manning: Fast Model Editing at Scale. ICLR 2022, https://arxiv.org/abs/2110.11309"
)


Reduction = Literal["edit-sum", "token-mean"]


@frozen(kw_only=True)
class MendConfig:
    """Options of editing, and of the network's training. None means: the profile's value."""

    checkpoint: str = option(
        "folder written by ke train mend; empty: the one in the cache for this model", "", file=True
    )
    lr_scale: float = option("factor on every learned step size when an edit is made", 1.0, validators.gt(0))
    reduction: Reduction = option(
        "loss of several edits made together: edit-sum = sum of each edit's mean over its target tokens, "
        "so N edits get the sum of their N updates; token-mean = one mean over the target tokens of all edits, as "
        "released; equal for one edit",
        "edit-sum",
    )
    profile: Literal["default", "paper"] = option(
        "training: default = minutes on a CPU; paper = the paper's budget", "default"
    )
    rank: int | None = derived("training: rank of the network's layers", positive)
    lr: float | None = derived("training: Adam's learning rate of the network", positive)
    step_lr: float | None = derived("training: Adam's learning rate of the step sizes", positive)
    batch: int | None = derived("training: edits per optimizer step", positive)
    edit_weight: float | None = derived("training: weight of the edit loss", not_negative)
    locality_weight: float | None = derived("training: weight of KL(unedited || edited) on other text", not_negative)
    locality: str = option(
        "training: other text: wordnet (in the package), or a text file with one document per line",
        "wordnet",
        file=True,
        words=("wordnet",),
    )
    locality_length: int = option("training: tokens to use of each document", 32, validators.gt(0))


def settings(config: MendConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return the training settings for a model of that shape."""
    from ke_plugin_mend.profiles import resolve_profile  # noqa: PLC0415  the profiles import this config

    return resolve_profile(config, facts.shape.hidden)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``mend``."""
    return [
        EditorSpec(
            name="mend",
            summary="a trained network transforms the gradient of an edit into an update of the last MLPs",
            config=MendConfig,
            build="ke_plugin_mend.editor:Mend",
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
            settings=settings,
            trainer=TrainerSpec(build="ke_plugin_mend.training:MendTrainer"),
        )
    ]
