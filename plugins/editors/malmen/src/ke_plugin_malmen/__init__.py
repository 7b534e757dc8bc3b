"""Editors ``malmen`` (Tan et al., ICLR 2024) and ``rledit`` (Li et al. 2025).

RLEdit keeps MALMEN's network and least-squares problem. It trains the network on sequences of batches, on a model that
has the earlier batches; MALMEN's training is a sequence of one batch. So both are in one distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, TrainerSpec, hookimpl, option
from ke_weights import derived, not_negative, positive
from ke_weights.trainers import Trainer

CITE = (
    "Tan, Zhang, Fu: Massive Editing for Large Language Models via Meta Learning. ICLR 2024, "
    "https://arxiv.org/abs/2311.04661"
)
RLEDIT_CITE = (
    "Li, Jiang, Chen, Bi, Zhou, Sun, Fang, Wang: Reinforced Lifelong Editing for Language Models. 2025, "
    "https://arxiv.org/abs/2502.05759"
)


@frozen(kw_only=True)
class MalmenConfig:
    """Options of editing, and of the network's training. None means: the profile's value."""

    checkpoint: str = option("folder written by ke train; empty: the one in the cache for this model", "", file=True)
    profile: Literal["default", "paper"] = option(
        "training: default = minutes on a CPU; paper = the paper's budget", "default"
    )
    modules: tuple[str, ...] | None = derived(
        "linear maps of the MLPs to change, each as PART:LAYER or PART:FIRST-LAST, such as down:24-29; the parts are "
        "gate and up (into the MLP) and down (out of it); fixed by the training"
    )
    rank: int | None = derived("training: rank of the network's layers", positive)
    lr: float | None = derived("training: Adam's learning rate of the network", positive)
    step_lr: float | None = derived("training: Adam's learning rate of the step sizes and the ridges", positive)
    step_init: float | None = derived("training: step size eta before training", positive)
    batch: int | None = derived("training: edits per batch, whose updates are joined", positive)
    locality_weight: float | None = derived("training: weight of KL(unedited || edited) on other text", not_negative)
    locality: str = option(
        "training: other text: wordnet (in the package), or a text file with one document per line",
        "wordnet",
        file=True,
        words=("wordnet",),
    )
    locality_length: int = option("training: tokens to use of each document", 32, validators.gt(0))


@frozen(kw_only=True)
class RLEditConfig(MalmenConfig):
    """Options of ``malmen``, and of training on sequences of batches."""

    length: int | None = derived("training: batches of a sequence, after which the original model is used", positive)
    window: int | None = derived("training: latest batches of the sequence that a step's loss includes", positive)
    discount: float | None = derived("training: factor on the loss of a batch per batch since", positive)
    shift_weight: float | None = derived("training: weight of |S|^2 in the loss", not_negative)


def build(name: str, config: MalmenConfig) -> Editor:
    """Return the editor; imports torch."""
    from ke_plugin_malmen.editor import Malmen, RLEdit  # noqa: PLC0415  built late

    return RLEdit(config) if name == "rledit" else Malmen(config)


def build_trainer(name: str, config: MalmenConfig) -> Trainer:
    """Return the trainer; imports torch."""
    from ke_plugin_malmen.training import MalmenTrainer  # noqa: PLC0415  built late

    return MalmenTrainer(name, config)


def settings(name: str, config: MalmenConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return the training settings for a model of that shape."""
    from ke_plugin_malmen.profiles import resolve_profile  # noqa: PLC0415  the profiles import this config

    return resolve_profile(name, config, facts)


def _spec(name: str, summary: str, config: type[MalmenConfig], cite: str) -> EditorSpec:
    return EditorSpec(
        name=name,
        summary=summary,
        config=config,
        build=partial(build, name),
        cite=cite,
        needs_weights=True,
        edited_form="cloze",
        settings=partial(settings, name),
        trainer=TrainerSpec(build=partial(build_trainer, name)),
    )


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``malmen`` and ``rledit``."""
    return [
        _spec(
            "malmen", "a trained network, whose updates of many edits are joined by least squares", MalmenConfig, CITE
        ),
        _spec("rledit", "as malmen, with a network trained on sequences of batches", RLEditConfig, RLEDIT_CITE),
    ]
