"""Options of MELO, and the values that depend on the model: published or derived.

The only published configuration is that of GPT-2 XL. Its radius of 0.5 belongs to the size of that model's states. For
another model, the radius is a fraction of the distance between two unrelated queries at that layer of that model, and
the router is deeper: at the published depth, prompts of one relation have nearly equal queries (README).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen, validators

from ke_core.plugin import ModelFacts, Setting, Shape
from ke_weights import Published, derived, not_negative, positive, resolve_hyperparameters


def _count(default: int, text: str) -> Any:
    return field(default=default, validator=validators.gt(0), metadata={"help": text})


@frozen(kw_only=True)
class MeloConfig:
    """Hyperparameters. None means: the published value for this model, else derived."""

    layer: int | None = derived("block with the router, before all layers with LoRA blocks", not_negative)
    layers: tuple[int, ...] | None = derived("blocks of the model whose MLP gets the LoRA blocks")
    part: Literal["up", "down"] | None = derived(
        "linear map of these MLPs whose output is the query, and which the LoRA blocks change: up (the last one into "
        "the MLP) or down (the last one of the MLP)"
    )
    radius: float | None = derived("radius of a new cluster", positive)
    steps: int | None = derived("maximum number of Adam steps for a LoRA block", positive)
    lr: float | None = derived("first learning rate of Adam, halved every 20 steps", positive)
    stop_loss: float | None = derived(
        "stop training a block when its mean loss is below this value; published: 0, which never stops", not_negative
    )
    rank: int = _count(2, "rank of a LoRA block")
    blocks: int = _count(
        350, "maximum number of LoRA blocks; the product of a block is scaled by this number, as published"
    )
    batch: int = _count(4, "maximum number of edits of one change that share a LoRA block")
    profile: Literal["default", "paper"] = field(
        default="default",
        metadata={"help": "default = corrected radii and derived values; paper = as released for GPT-2 XL"},
    )


FRACTION = 0.2
"""Of the distance between unrelated queries: measured on SmolLM2-135M (README)."""
_GPT2_XL: dict[str, Any] = {"radius": 0.5, "steps": 50, "lr": 1e-3, "stop_loss": 0.0}
PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published(
        "GPT-2 XL by MELO's authors", {"layer": 35, "layers": (36, 37), "part": "up"} | _GPT2_XL
    )
}
"""The published configurations, by family, blocks, hidden size and key dimension."""


def settings(config: MeloConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return every hyperparameter that depends on the model, with its reason."""
    published = PUBLISHED.get(facts.shape.key)
    found = resolve_hyperparameters(config, published, _layers(facts.shape, config.profile))
    layer, part = found["layer"].value, found["part"].value
    after = tuple(at for at in (layer + 1, layer + 2) if at < facts.shape.blocks)
    layers = Setting(after, "the next two blocks, as published for GPT-2 XL")
    found |= resolve_hyperparameters(config, published, {"layers": layers})
    training = {name: Setting(value, "published for GPT-2 XL") for name, value in _GPT2_XL.items()}
    if published is None and config.profile == "default":
        training |= _derived(facts, layer, part, given=config.radius is not None)
    return found | resolve_hyperparameters(config, published, training)


def _layers(shape: Shape, profile: str) -> dict[str, Setting]:
    depth, reason = (0.73, "as published for GPT-2 XL") if profile == "paper" else (0.84, "measured on SmolLM2-135M")
    layer = max(min(round(depth * shape.blocks), shape.blocks - 3), 0)
    return {
        "layer": Setting(layer, f"{depth:.0%} of {shape.blocks} blocks, {reason}"),
        "part": Setting("up", "published for GPT-2 XL"),
    }


def _derived(facts: ModelFacts, layer: int, part: str, *, given: bool) -> dict[str, Setting]:
    found = {"stop_loss": Setting(0.1, "later steps make SmolLM2-135M repeat the target (README)")}
    if not given and layer < facts.shape.blocks:  # a missing layer is refused later
        distance = facts.map_distance(layer, part, "output")
        reason = f"{FRACTION:.0%} of the median distance between two outputs of {part} at layer {layer}, {distance:g}"
        found["radius"] = Setting(float(f"{FRACTION * distance:.2g}"), reason)
    return found
