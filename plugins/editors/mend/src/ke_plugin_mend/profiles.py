"""How the network is trained: the published budget, and one for minutes on a processor.

The small profile's numbers, by reasoning, not by search:

*Rank.* The network of one shape of matrix holds 4 n r numbers (two layers of U and V), n = in + out: 2,112 for
SmolLM2-135M, whose nine matrices have two shapes. The published r = 1920 (1.2 times GPT-2 XL's hidden size) would make
that 32 million numbers, four times what it edits, each moved by Adam at every step, while minutes of training show it
some ten thousand tokens. A quarter of the hidden size, 144, makes 2.4 million: less than a third of what it edits.

*Learning rate.* Adam moves an element of U by about lr a step, and an element of U V y, a sum over r directions of
unit size, by about lr sqrt(r). In the published 10,000 steps (100,000 edits, ten a step) that is 1e-6 x 1e4 x
sqrt(1920) = 0.4. A few hundred steps at rank 144 travel as far at 1e-4.

*Step sizes.* A token's normalized x and g have elements of unit size, so lr_i g x^T has an element of lr_i, and
weights have some hundredths: useful |lr_i| lie around 1e-4 to 1e-3. At 1e-4 a step, as published, single steps are as
large as the value; 3e-5 still crosses that range in some twenty steps. They are left to their own Adam: in the
other, with its larger rate here, they would move faster than meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ke_core.plugin import Setting
from ke_plugin_mend import MendConfig

PUBLISHED = "published by MEND's authors"
SMALL = "small profile"
AS_PUBLISHED = "as published"


def settle_profile(config: MendConfig, hidden: int) -> dict[str, Setting]:
    """Every setting of the training, with its reason; ``hidden`` is the model's hidden size.

    ``steps``: optimizer steps after which the training is finished, 0 for none but the clock. ``wordings``: which
    prompts L_e is taken on. ``both_adams``: whether the step sizes are also in the network's Adam.
    """
    found = _published() if config.profile == "published" else _small(hidden)
    for name, setting in found.items():
        given = getattr(config, name, None)
        if given is not None:
            found[name] = Setting(given, "given" if given != setting.value else setting.reason)
    return found


def values(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The values alone, as JSON."""
    return {name: setting.value for name, setting in settings.items()}


def _published() -> dict[str, Setting]:
    numbers: dict[str, Any] = {
        "blocks": 3,
        "rank": 1920,
        "lr": 1e-6,
        "step_lr": 1e-4,
        "step_init": 1e-4,
        "both_adams": True,
        "batch": 10,
        "steps": 10_000,
        "clip": 100.0,
        "edit_weight": 0.1,
        "locality_weight": 1.0,
        "wordings": "paraphrases",
    }
    return {name: Setting(value, PUBLISHED) for name, value in numbers.items()}


def _small(hidden: int) -> dict[str, Setting]:
    found = {name: Setting(setting.value, AS_PUBLISHED) for name, setting in _published().items()}
    return found | {
        "rank": Setting(max(hidden // 4, 1), f"{SMALL}: a quarter of the hidden size, {hidden}"),
        "lr": Setting(1e-4, f"{SMALL}: a few hundred steps travel as far as the published 10,000"),
        "step_lr": Setting(3e-5, f"{SMALL}: useful step sizes lie around 1e-4 to 1e-3"),
        "both_adams": Setting(value=False, reason=f"{SMALL}: the network's rate is too large for them"),
        "batch": Setting(4, f"{SMALL}: more steps in the same time"),
        "steps": Setting(0, f"{SMALL}: the clock alone"),
        "wordings": Setting("all", f"{SMALL}: the edit's own prompt counts as a wording, so that it is learned too"),
    }
