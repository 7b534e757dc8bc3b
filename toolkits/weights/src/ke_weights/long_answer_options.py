"""Options of editors that write long answers (UnKE, AnyEdit). Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen, validators

from ke_core.plugin import ModelFacts, Setting, option
from ke_weights.hyperparameters import OffsetConfig, corpus_option, derived, document_length_option, resolve_target
from ke_weights.published import Key, Published

DEPTH = 0.23
"""The published layer 7 of models of 28 to 32 blocks, as a fraction."""


def _count(default: int, text: str, least: int = 1) -> Any:
    return option(text, default, validators.ge(least))


@frozen(kw_only=True)
class LongTargetConfig(OffsetConfig):
    """Options of the states that lead to an answer."""

    eos: bool = option("an end-of-sequence token ends each answer, as released", default=True)


@frozen(kw_only=True)
class BlockConfig(LongTargetConfig):
    """Options of a method that trains one block. None means: the published value for this model, else derived."""

    profile: Literal["default", "paper"] = option(
        "default = the block's loss is a mean without padding positions; paper = with them, as released", "default"
    )
    layer: int | None = derived("block whose output is optimized and which is trained")
    block_steps: int = _count(50, "steps of AdamW that train the block", 0)
    block_lr: float = option("learning rate of the block's training", 2e-4, validators.gt(0))
    block_decay: float = option("weight decay of the block's training, except norms", 0.01, validators.ge(0))
    keep: int = _count(20, "documents of the corpus whose hidden states are kept, sampled for each batch of edits")
    corpus: str = corpus_option("whose hidden states are kept")
    document_length: int = document_length_option(64)


def block_settings(config: BlockConfig, facts: ModelFacts, published: Mapping[Key, Published]) -> dict[str, Setting]:
    """Return layer and target, with the reasons for their values."""
    blocks = facts.shape.blocks
    layer = min(max(round(DEPTH * blocks), 1), max(blocks - 2, 0))
    always = "published for every model"
    otherwise = {
        "layer": Setting(layer, f"{DEPTH:.0%} of {blocks} blocks, where the published layer 7 of 28 to 32 is"),
        "steps": Setting(25, always),
        "lr": Setting(0.5, always),
        "weight_decay": Setting(1e-3, always),
        "clamp": Setting(4.0, always),
    }
    return resolve_target(config, facts, published.get(facts.shape.key), otherwise)
