"""Training settings of the networks: the published budgets, and those for minutes on a CPU.

The numbers of the default profile:

*Step size.* The published eta, 1e-6, is one number in the same Adam as the network. Each step moves it by the learning
rate, 1e-5, so the first step makes it 1.1e-5 or -9e-6, and edits then go the wrong way. Here eta = log(1 + e^s), and s
has its own Adam: a step changes eta by at most about 3%, and its sign never. The ridge e^lambda is in the same Adam.

*Rank and learning rate.* A quarter of the hidden size and 1e-4, as derived for ``mend``, which has the same network.

*Sequences.* RLEdit's published network makes one optimizer step after a whole sequence of 400 batches, and one pass
over the data: a single step of Adam, which moves each parameter by about 1e-5. Here it makes one after every batch.
Shorter sequences and a smaller window, of 5 batches, allow several sequences in half an hour: a step costs about
``window`` times as much as one of MALMEN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ke_core.plugin import ModelFacts, Setting
from ke_plugin_malmen import MalmenConfig
from ke_weights.hypernetwork import with_given

DEFAULT = "default profile"
AUTHORS = {"malmen": "published by MALMEN's authors", "rledit": "published by RLEdit's authors"}

MAPS: Mapping[tuple[str, tuple[str, int, int, int]], tuple[str, ...]] = {
    ("malmen", ("gpt2", 48, 1600, 6400)): ("down:42-47",),
    ("malmen", ("gptj", 28, 4096, 16384)): ("down:22-27",),
    ("rledit", ("llama", 32, 4096, 14336)): ("gate:22-30", "up:22-30"),
    ("rledit", ("mistral", 32, 4096, 14336)): ("down:17-18",),
    ("rledit", ("gemma2", 42, 3584, 14336)): ("gate:32-40", "up:32-40"),
}
"""The published linear maps, by editor and shape of the model."""


def resolve_profile(name: str, config: MalmenConfig, facts: ModelFacts) -> dict[str, Setting]:
    """Return every training setting of the editor ``name`` with its reason.

    ``steps``: batches after which the training is finished, 0 for a time limit only. ``wordings``: the prompts that the
    edit's loss is computed on. ``accumulate``: one optimizer step per sequence. ``positive_step``: eta is a softplus.
    ``scaled_v``: V starts as N(0, 1/n) instead of N(0, 1). ``ignore_constant``: features without variance in
    training are normalized to 0.
    """
    found = {key: Setting(value, AUTHORS[name]) for key, value in {**COMMON, **BUDGETS[name]}.items()}
    if config.profile == "default":
        found |= _default(name, facts.shape.hidden)
    return with_given(config, {"modules": _modules(name, facts), **found})


COMMON: Mapping[str, Any] = {
    "lr": 1e-5, "step_lr": 1e-5, "step_init": 1e-6, "positive_step": False, "scaled_v": False,
    "ignore_constant": False, "clip": 1.0, "wordings": "paraphrases",
}  # fmt: skip
BUDGETS: Mapping[str, Mapping[str, Any]] = {
    "malmen": {
        "rank": 1920, "layers": 2, "batch": 512, "steps": 318, "locality_weight": 1.0, "length": 1, "window": 1,
        "discount": 1.0, "shift_weight": 0.0, "accumulate": False,
    },
    "rledit": {
        "rank": 1024, "layers": 4, "batch": 20, "steps": 400, "locality_weight": 0.6, "length": 400, "window": 10,
        "discount": 0.95, "shift_weight": 1e-4, "accumulate": True,
    },
}  # fmt: skip
"""The published values; steps are one pass over the data, 163,196 edits of zsRE for MALMEN."""


def _default(name: str, hidden: int) -> dict[str, Setting]:
    numbers: dict[str, tuple[Any, str]] = {
        "rank": (max(hidden // 4, 1), f"a quarter of the hidden size, {hidden}"),
        "lr": (1e-4, "a few hundred steps are enough"),
        "step_lr": (3e-2, "a step changes eta and the ridge by at most 3%"),
        "step_init": (STEPS[name], "measured on SmolLM2-135M"),
        "positive_step": (True, "eta keeps its sign"),
        "scaled_v": (True, "elements of V y start at unit size"),
        "ignore_constant": (True, "nothing was learned about features without variance in training"),
        "batch": (8, "more steps in the same time"),
        "steps": (0, "limited by time only"),
        "wordings": ("all", "the edit's own prompt counts as a wording, so it is trained too"),
    }
    if name == "rledit":
        numbers |= {
            "batch": (4, "more steps in the same time"),
            "length": (20, "several sequences in half an hour"),
            "window": (5, "a step costs about as much as this many steps of malmen"),
            "accumulate": (False, "an optimizer step after every batch"),
        }
    return {key: Setting(value, f"{DEFAULT}: {reason}") for key, (value, reason) in numbers.items()}


STEPS = {"malmen": 3e-4, "rledit": 1e-3}
"""With the untrained network and the default linear maps, these make an edit on SmolLM2-135M (README)."""


def _modules(name: str, facts: ModelFacts) -> Setting:
    """Return the published linear maps for this model, else those at the same depth."""
    published, blocks = MAPS.get((name, facts.shape.key)), facts.shape.blocks
    if published:
        return Setting(published, AUTHORS[name])
    if name == "malmen":
        first, last, part = blocks - max(round(0.2 * blocks), 1), blocks - 1, "down"
        reason = f"the last fifth of {blocks} blocks, as published for GPT-J"
    else:
        first, last, part = round(0.69 * blocks), min(round(0.94 * blocks), blocks - 1), "up"
        reason = f"69 to 94% of {blocks} blocks, as published for LLaMA-3-8B"
    return Setting((f"{part}:{first}-{last}",), reason)
