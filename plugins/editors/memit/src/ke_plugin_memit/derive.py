"""MEMIT's hyperparameters for the model at hand: published where there is a publication, else from its shape.

Layers and target are those of ``ke_core.spec.specs``. MEMIT's own is lambda (``mom2_weight``). The update of one
layer moves one edit's value by the share

    s / (lambda + s),    s = k^T C^-1 k,

of what is wanted (MEMIT equation 14 for one key). Over the tokens that C = E[k k^T] is made of, the mean of s is
tr(C^-1 C) = f, the length of a key, in every model. So lambda = f asks that a typical key be moved half way in each
layer, and that is what the published values do: GPT-J 15000 / 16384 = 0.92, LLaMA-3-8B 15000 / 14336 = 1.05,
Qwen2.5-7B 15000 / 18944 = 0.79, LLaMA-2-7B 15000 / 11008 = 1.36; only GPT-2 XL is stiffer, 20000 / 6400 = 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from ke_core.plugin import ModelFacts, Setting
from ke_plugin_memit import MemitConfig
from ke_weights import SPREAD, Published, settle, spread_settings

USUAL = 15000.0
WEIGHT: Mapping[str, float] = {"gpt2": 20000.0, "gpt_neox": 20000.0}
"""lambda of the published models, by family; the usual one otherwise."""


def derive(config: MemitConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model, with the reason for its value."""
    known, inner = SPREAD.get(facts.shape.key), facts.shape.inner
    weight = {"mom2_weight": WEIGHT.get(facts.shape.family, USUAL)}
    own = Setting(float(inner), f"length of a key, {inner}: a typical key is moved half way in each layer")
    return spread_settings(config, facts) | settle(
        config, known and Published(known.source, weight), {"mom2_weight": own}
    )
