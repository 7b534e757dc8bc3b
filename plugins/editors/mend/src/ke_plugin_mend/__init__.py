"""Editor ``mend``: Model Editor Networks with Gradient Decomposition (Mitchell et al., ICLR 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, Trainer, TrainerSpec, hookimpl
from ke_weights import derived, not_negative, positive

CITE = (
    "Mitchell, Lin, Bosselut, Finn, Manning: Fast Model Editing at Scale. ICLR 2022, https://arxiv.org/abs/2110.11309"
)


Reduction = Literal["edit-sum", "token-mean"]


@frozen(kw_only=True)
class MendConfig:
    """What an edit is made with, and how its network is trained. None means: the profile's value."""

    checkpoint: str = field(
        default="",
        metadata={"help": "folder that ke train mend wrote; empty: the one in the cache for this model", "file": True},
    )
    lr_scale: float = field(
        default=1.0,
        validator=validators.gt(0),
        metadata={"help": "factor on every learned step size when an edit is made"},
    )
    reduction: Reduction = field(
        default="edit-sum",
        metadata={
            "help": "loss of several edits made together: edit-sum = each edit's mean over its target tokens, summed, "
            "so that N edits get the sum of their N updates; token-mean = one mean over the target tokens of all "
            "edits, as released. The same for one edit"
        },
    )
    profile: Literal["small", "published"] = field(
        default="small", metadata={"help": "training: small = minutes on a processor; published = the paper's budget"}
    )
    rank: int | None = derived("training: rank of the network's layers", positive)
    lr: float | None = derived("training: Adam's learning rate of the network", positive)
    step_lr: float | None = derived("training: Adam's learning rate of the step sizes", positive)
    batch: int | None = derived("training: edits behind one step of the optimizers", positive)
    edit_weight: float | None = derived("training: weight of the edit in the loss", not_negative)
    locality_weight: float | None = derived("training: weight of KL(before || after) on other text", not_negative)
    locality: str = field(
        default="wordnet",
        metadata={
            "help": "training: other text: wordnet (in the package), or a text file, one document a line",
            "file": True,
            "words": ("wordnet",),
        },
    )
    locality_length: int = field(
        default=32, validator=validators.gt(0), metadata={"help": "training: tokens taken of a document"}
    )


def build(config: MendConfig) -> Editor:
    """The editor; imports torch."""
    from ke_plugin_mend.editor import Mend  # noqa: PLC0415  built late

    return Mend(config)


def build_trainer(config: MendConfig) -> Trainer:
    """The trainer; imports torch."""
    from ke_plugin_mend.training import MendTrainer  # noqa: PLC0415  built late

    return MendTrainer(config)


def settings(config: MendConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """How the network is trained for a model of that shape."""
    from ke_plugin_mend.profiles import settle_profile  # noqa: PLC0415  the profiles import this config

    return settle_profile(config, facts.shape.hidden)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``mend``."""
    return [
        EditorSpec(
            name="mend",
            summary="a trained network turns the gradient of an edit into a small update of the last MLPs",
            config=MendConfig,
            build=build,
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
            settings=settings,
            trainer=TrainerSpec(build=build_trainer),
        )
    ]
