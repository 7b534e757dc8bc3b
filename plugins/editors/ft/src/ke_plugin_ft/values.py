"""Options of fine-tuning, and the values that depend on the model: published or derived.

Every published configuration of FT and FT-L uses the objective ``prompt-last``: the code of ROME's and MEMIT's authors
has no other, and EasyEdit's FT configurations set it (as ``prompt_last``). A model without published values is trained
on ``target``, the likelihood of the new object's text.

``profile=locft-bf`` (Yang et al. 2025) trains all edits of a batch breadth-first: epochs over shuffled mini-batches of
100 edits, without a bound, on one projection. It trains the object and the end-of-sequence token after it.

Bounded and unbounded fine-tuning have different layers: both were chosen by a search. The bound for another model
follows from the key dimension f. The published bounds decrease with f (2e-3 at f = 4096, 1e-3, 5e-4, 5e-5 at f =
16384), faster than 1 / f, because a sum of f changes of size eps must stay small relative to a hidden state. Between
the published dimensions, eps is interpolated with both on a logarithmic scale; outside, it is the nearest published
value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import BadConfig, ModelFacts, Setting, Shape, option
from ke_weights import Published, derived, positive, resolve_hyperparameters


@frozen(kw_only=True)
class FtConfig:
    """None means: the published value for this model, else derived from its shape."""

    profile: Literal["default", "locft-bf"] = option(
        "default = FT-L, mini-batches in the order of the edits; locft-bf = LocFT-BF: shuffled mini-"
        "batches of all edits, no bound, eos, and its own layer",
        "default",
    )
    layers: tuple[int, ...] | None = derived("layers whose MLP output projection is trained, in ascending order")
    constrained: bool | None = derived(
        "keep every weight within eps of its original value (FT-L); false: no bound (FT); derived: true, for "
        "profile=locft-bf false"
    )
    eps: float | None = derived("maximum change of a weight, if constrained", positive)
    epochs: int | None = derived("maximum number of epochs", positive)
    lr: float | None = derived("learning rate of Adam; published rates are for objective=prompt-last", positive)
    objective: Literal["prompt-last", "target"] | None = derived(
        "loss of an edit, a mean over the new object's tokens: target = -log p of each token given the previous ones "
        "(EasyEdit's target_new); prompt-last = -log p of each token at the prompt's last position, as released; "
        "derived: prompt-last for a model with published values, else target"
    )
    eos: bool | None = derived(
        "train the end-of-sequence token after the new object; derived: false, for profile=locft-bf true"
    )
    batch: int | None = derived("edits per optimizer step; derived: 64, for profile=locft-bf 100", positive)
    stop_loss: float = option(
        "skip a batch whose mean loss is below this value, and stop when the mean loss of all edits is",
        1e-2,
        validators.ge(0),
    )


_FT = {"epochs": 25, "lr": 5e-4, "objective": "prompt-last"}
_MQUAKE = "MQuAKE trains layer 31 of Vicuna-7B"

CONSTRAINED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 24, 1024, 4096): Published("GPT-2 medium by ROME's authors", _FT | {"layers": (0,), "eps": 2e-3}),
    ("gpt2", 36, 1280, 5120): Published("GPT-2 large by ROME's authors", _FT | {"layers": (0,), "eps": 1e-3}),
    ("gpt2", 48, 1600, 6400): Published("GPT-2 XL by ROME's authors", _FT | {"layers": (0,), "eps": 5e-4}),
    ("gptj", 28, 4096, 16384): Published(
        "GPT-J by ROME's authors", _FT | {"layers": (0,), "eps": 5e-5}, "MQuAKE trains layer 21"
    ),
    ("llama", 32, 4096, 11008): Published("LLaMA-7B by EasyEdit", _FT | {"layers": (21,), "eps": 5e-5}, _MQUAKE),
    ("mistral", 32, 4096, 14336): Published("Mistral-7B by EasyEdit", _FT | {"layers": (21,), "eps": 5e-5}),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by EasyEdit", _FT | {"layers": (27,)}),
}
UNBOUNDED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published("GPT-2 XL by ROME's authors", _FT | {"layers": (1,)}),
    ("gptj", 28, 4096, 16384): Published("GPT-J by ROME's authors", _FT | {"layers": (21,)}),
    ("llama", 32, 4096, 11008): Published("LLaMA-7B by EasyEdit", _FT | {"layers": (21,)}, _MQUAKE),
    ("llama", 32, 4096, 14336): Published("LLaMA-3-8B by EasyEdit and AlphaEdit's authors", _FT | {"layers": (21,)}),
    ("llama", 28, 3072, 8192): Published("LLaMA-3.2-3B by EasyEdit", _FT | {"layers": (21,)}),
    ("mistral", 32, 4096, 14336): Published("Mistral-7B by EasyEdit", _FT | {"layers": (21,)}),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by EasyEdit", _FT | {"layers": (27,)}),
}
BREADTH_FIRST: Mapping[tuple[str, int, int, int], Published] = {
    ("llama", 32, 4096, 14336): Published("LLaMA-3-8B by LocFT-BF's authors", {"layers": (22,)}),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by LocFT-BF's authors", {"layers": (6,)}),
    ("mistral", 32, 4096, 14336): Published(
        "Mistral-7B by LocFT-BF's authors", {"layers": (23,)}, "they train all of the block, at a rate of 5e-5"
    ),
}
"""Layers of the released configurations of LocFT-BF."""
BOUNDS = ((4096, 2e-3), (5120, 1e-3), (6400, 5e-4), (16384, 5e-5))
"""Key dimension, and the bound published for it."""


def settings(config: FtConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return every hyperparameter that depends on the model or the profile, with its reason; ``eps`` with a bound."""
    found = resolve_hyperparameters(config, None, _profile(config))
    bounded, shape = found["constrained"].value, facts.shape
    if config.profile == "locft-bf":
        table, otherwise = BREADTH_FIRST, _breadth_first(shape)
    else:
        table, otherwise = CONSTRAINED if bounded else UNBOUNDED, _fine_tuning(shape)
    if bounded:
        otherwise["eps"] = _bound(shape)
    return resolve_hyperparameters(config, table.get(shape.key), otherwise) | found


def check_options(config: FtConfig) -> None:
    """Raise BadConfig for a bound that no weight would be kept within."""
    bounded, profile = config.constrained, config.profile
    if config.eps is not None and not (profile == "default" if bounded is None else bounded):
        reason = f"profile={profile}" if bounded is None else "constrained=false"
        raise BadConfig(
            f"ft.eps={config.eps} has no effect with {reason}", hint="add -o ft.constrained=true, or remove ft.eps"
        )


def _profile(config: FtConfig) -> dict[str, Setting]:
    """Return the values that depend only on the profile."""
    breadth_first = config.profile == "locft-bf"
    reason = "published for LocFT-BF" if breadth_first else "default"
    return {
        "constrained": Setting(not breadth_first, reason),
        "eos": Setting(breadth_first, reason),
        "batch": Setting(100 if breadth_first else 64, reason),
    }


def _fine_tuning(shape: Shape) -> dict[str, Setting]:
    layer = min(round(0.66 * shape.blocks), shape.blocks - 1)
    return {
        "layers": Setting((layer,), f"66% of {shape.blocks} blocks, where most published layers lie"),
        "epochs": Setting(25, "published for every model with objective=prompt-last"),
        "lr": Setting(5e-4, "published for every model with objective=prompt-last"),
        "objective": Setting("target", "likelihood of the new object's text: no values are published for this model"),
    }


def _breadth_first(shape: Shape) -> dict[str, Setting]:
    layer = min(round(0.7 * shape.blocks), shape.blocks - 1)
    return {
        "layers": Setting(
            (layer,), f"70% of {shape.blocks} blocks, as published for LLaMA-3-8B and Mistral-7B (Qwen2.5-7B: 21%)"
        ),
        "epochs": Setting(25, "published for every model"),
        "lr": Setting(5e-4, "published for MLP output projections"),
        "objective": Setting("target", "published for every model"),
    }


def _bound(shape: Shape) -> Setting:
    below = [pair for pair in BOUNDS if pair[0] <= shape.inner]
    above = [pair for pair in BOUNDS if pair[0] >= shape.inner]
    if not below or not above:
        inner, eps = (below or above)[-1 if below else 0]
        return Setting(eps, f"published for key dimension {inner}, the nearest to {shape.inner}")
    (low, wide), (high, narrow) = below[-1], above[0]
    share = math.log(shape.inner / low) / math.log(high / low) if high > low else 0.0
    eps = wide * (narrow / wide) ** share
    return Setting(eps, f"key dimension {shape.inner}, interpolated between the values published for {low} and {high}")
