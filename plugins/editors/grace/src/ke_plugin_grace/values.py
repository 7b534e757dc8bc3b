"""Options of GRACE, and the values that depend on the model: published or derived.

Every published configuration but one has the radius 1, for keys whose size differs by more than a factor of ten between
models and between layers of one model. For a model without published values, the radius is a fraction of the distance
between two unrelated keys at that layer of that model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from ke_core.plugin import ModelFacts, Setting, Shape, option
from ke_weights import Published, derived, not_negative, positive, resolve_hyperparameters


@frozen(kw_only=True)
class GraceConfig:
    """Hyperparameters. None means: the published value for this model, else derived."""

    layer: int | None = derived("block whose MLP holds the codebook", not_negative)
    part: Literal["up", "down"] | None = derived(
        "linear map of that MLP whose output is replaced: down (the last one) or up (the last one into the MLP)"
    )
    eps: float | None = derived("radius of a new entry: maximum distance between a key and a query", positive)
    steps: int | None = derived("steps of Adam for a value", positive)
    lr: float | None = derived("learning rate of Adam", positive)
    replacement: Literal["last", "prompt", "all"] | None = derived(
        "positions whose output is replaced: last = the last token of the prompt; prompt = the tokens before it; all = "
        "every token of the prompt and of the answer"
    )
    init: Literal["cold", "warm"] = option(
        "first value of a new entry: cold = uniform in [0, 1), as published; warm = the layer's output", "cold"
    )
    expand: Literal["coverage", "moving-average"] = option(
        "an entry with the same target outside its radius: coverage = a larger radius, as published; "
        "moving-average = the key also moves halfway to the new one",
        "coverage",
    )
    profile: Literal["default", "paper"] = option(
        "radii: default = corrected; paper = as published, eps 1 and radii that may grow in a conflict", "default"
    )


FRACTION = 0.2
"""Of the distance between unrelated keys: measured on SmolLM2-135M (README)."""
_ONE: dict[str, Any] = {"eps": 1.0, "lr": 1.0, "replacement": "last"}
_EASYEDIT: dict[str, Any] = _ONE | {"part": "down", "steps": 50}

PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published(
        "GPT-2 XL by GRACE's authors",
        _ONE | {"layer": 35, "part": "up", "steps": 100, "replacement": "prompt"},
        "EasyEdit makes 200 steps and replaces the last token",
    ),
    ("gptj", 28, 4096, 16384): Published("GPT-J by EasyEdit", _EASYEDIT | {"layer": 25, "steps": 200}),
    ("llama", 32, 4096, 11008): Published("LLaMA-2-7B by EasyEdit", _EASYEDIT | {"layer": 27}),
    ("llama", 28, 3072, 8192): Published(
        "LLaMA-3.2-3B by EasyEdit", _EASYEDIT | {"layer": 27}, "the last block, where a value reaches one token only"
    ),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by EasyEdit", _EASYEDIT | {"layer": 18}),
}
"""The published configurations, by family, blocks, hidden size and key dimension."""


def settings(config: GraceConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return every hyperparameter that depends on the model, with its reason."""
    shape = facts.shape
    published = PUBLISHED.get(shape.key)
    found = resolve_hyperparameters(config, published, _derived(shape))
    eps = Setting(1.0, "published for most models")
    if published is None and config.eps is None and config.profile == "default" and found["layer"].value < shape.blocks:
        eps = _radius(facts, found["layer"].value, found["part"].value)
    return found | resolve_hyperparameters(config, published, {"eps": eps})


def _derived(shape: Shape) -> dict[str, Setting]:
    layer = min(round(0.84 * shape.blocks), max(shape.blocks - 2, 0))
    return {
        "layer": Setting(layer, f"84% of {shape.blocks} blocks, as published for LLaMA-2-7B"),
        "part": Setting("down", "published for all models but GPT-2 XL"),
        "steps": Setting(50, "published for LLaMA and Qwen2.5"),
        "lr": Setting(1.0, "published for every model"),
        "replacement": Setting("last", "published for all models but GPT-2 XL"),
    }


def _radius(facts: ModelFacts, layer: int, part: str) -> Setting:
    distance = facts.map_distance(layer, part, "input")
    reason = f"{FRACTION:.0%} of the median distance between two inputs of {part} at layer {layer}, {distance:g}"
    return Setting(float(f"{FRACTION * distance:.2g}"), reason)
