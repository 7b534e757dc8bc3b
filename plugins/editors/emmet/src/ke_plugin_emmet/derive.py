"""EMMET's hyperparameters: published where there is a publication, else derived.

With softening e and weight w the update is MEMIT's at one layer with lambda = w e: for GPT-J and LLaMA
100000 * 0.1 = 10000, for GPT-2 XL 10000 * 0.1 = 1000. So what MEMIT's lambda is derived from, the length of a key f,
gives w = f / 0.1 here: a typical key is moved half way when e is left at its default.
"""

from __future__ import annotations

from collections.abc import Mapping

from ke_core.plugin import SPREAD, ModelFacts, Published, Setting, settle, single_settings
from ke_plugin_emmet import EmmetConfig

WEIGHT, GPT2_WEIGHT = 100_000.0, 10_000.0
SOFTENING = 0.1
LAYER: Mapping[str, int] = {"gpt2": 17}
"""The published layer by family; 5 otherwise."""

PUBLISHED = {
    key: Published(
        known.source,
        {**known.values, "layer": LAYER.get(key[0], 5), "mom2_weight": GPT2_WEIGHT if key[0] == "gpt2" else WEIGHT},
        "layer and weight are EMMET's",
    )
    for key, known in SPREAD.items()
}
"""MEMIT's targets with EMMET's layer and weight."""


def derive(config: EmmetConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model, with the reason for its value."""
    inner = facts.shape.inner
    clamp = 4.0 if facts.shape.rms_norm else 0.75
    own = Setting(inner / SOFTENING, f"length of a key, {inner}, over {SOFTENING}: a typical key is moved half way")
    return single_settings(config, facts, table=PUBLISHED, clamp=clamp) | settle(
        config, PUBLISHED.get(facts.shape.key), {"mom2_weight": own}
    )
