"""Training settings of the network: the published budget, and one for minutes on a CPU.

The numbers of the default profile are derived, not searched:

*Rank.* The network of one shape of matrix has 4 n r parameters (two layers of U and V), n = in + out: 2,112 for
SmolLM2-135M, whose nine matrices have two shapes. The published r = 1920 (1.2 times GPT-2 XL's hidden size) would need
32 million parameters, four times the number that they edit, all updated by Adam in every step, while minutes of
training only provide about ten thousand tokens. A quarter of the hidden size, 144, needs 2.4 million: less than a third
of what it edits.

*Learning rate.* Adam moves an element of U by about lr per step, and an element of U V y, a sum over r directions, by
about lr sqrt(r) times the size of V y. Here V is scaled, so that V y has unit size: 300 steps at 1e-4 and rank 144 move
it by 0.4, which is in proportion to the normalized y. The published V is not scaled, so V y has the size sqrt(n) = 89
for GPT-2 XL: 10,000 steps (100,000 edits, ten per step) at 1e-6 and rank 1920 move U V y by at most 39.

*Step sizes.* A token's normalized x and g have elements of unit size, so lr_i g x^T has elements of size lr_i, and
weights are a few hundredths: useful |lr_i| are about 1e-4 to 1e-3. At the published 1e-4 per step, a single step is as
large as the value; 3e-5 still crosses that range in about twenty steps. The step sizes are only in their own Adam: in
the network's, with its larger rate here, they would move too fast.
"""

from __future__ import annotations

from typing import Any

from ke_core.plugin import Setting
from ke_plugin_mend import MendConfig
from ke_weights.hypernetwork import with_given

PUBLISHED = "published by MEND's authors"
DEFAULT = "default profile"
AS_PUBLISHED = "as published"


def resolve_profile(config: MendConfig, hidden: int) -> dict[str, Setting]:
    """Return every training setting with its reason; ``hidden`` is the model's hidden size.

    ``steps``: optimizer steps after which the training is finished, 0 for a time limit only. ``wordings``: the prompts
    that L_e is computed on. ``both_adams``: whether the step sizes are also in the network's Adam.
    ``scaled_v``: whether V starts as N(0, 1/n) instead of N(0, 1).
    ``ignore_constant``: whether features without variance in training are normalized to 0.
    """
    found = _paper() if config.profile == "paper" else _default(hidden)
    return with_given(config, found)


def _paper() -> dict[str, Setting]:
    numbers: dict[str, Any] = {
        "blocks": 3,
        "rank": 1920,
        "lr": 1e-6,
        "step_lr": 1e-4,
        "step_init": 1e-4,
        "both_adams": True,
        "scaled_v": False,
        "ignore_constant": False,
        "batch": 10,
        "steps": 10_000,
        "clip": 100.0,
        "edit_weight": 0.1,
        "locality_weight": 1.0,
        "wordings": "paraphrases",
    }
    return {name: Setting(value, PUBLISHED) for name, value in numbers.items()}


def _default(hidden: int) -> dict[str, Setting]:
    found = {name: Setting(setting.value, AS_PUBLISHED) for name, setting in _paper().items()}
    return found | {
        "rank": Setting(max(hidden // 4, 1), f"{DEFAULT}: a quarter of the hidden size, {hidden}"),
        "lr": Setting(1e-4, f"{DEFAULT}: a few hundred steps are enough"),
        "scaled_v": Setting(value=True, reason=f"{DEFAULT}: elements of V y start at unit size"),
        "ignore_constant": Setting(value=True, reason=f"{DEFAULT}: nothing was learned about them"),
        "step_lr": Setting(3e-5, f"{DEFAULT}: useful step sizes are about 1e-4 to 1e-3"),
        "both_adams": Setting(value=False, reason=f"{DEFAULT}: the network's learning rate is too large for them"),
        "batch": Setting(4, f"{DEFAULT}: more steps in the same time"),
        "steps": Setting(0, f"{DEFAULT}: limited by time only"),
        "wordings": Setting("all", f"{DEFAULT}: the edit's own prompt counts as a wording, so it is trained too"),
    }
