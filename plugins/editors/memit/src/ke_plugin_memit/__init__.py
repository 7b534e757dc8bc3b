"""Editor ``memit``: Mass-Editing Memory in a Transformer (Meng et al., ICLR 2023).

MEMIT's hyperparameters for a model: the published ones, or derived from its shape.

Layers and target are those of ``ke_weights.hyperparameters``. MEMIT's own is lambda (``mom2_weight``). The update of
one layer moves one edit's value by the fraction

    s / (lambda + s),    s = k^T C^-1 k,

of what is wanted (MEMIT equation 14 for one key). Over the tokens that C = E[k k^T] is made of, the mean of s is
tr(C^-1 C) = f, the length of a key, in every model. So lambda = f asks that a typical key be moved half way in each
layer, and that is what the published values do: GPT-J 15000 / 16384 = 0.92, LLaMA-3-8B 15000 / 14336 = 1.05,
Qwen2.5-7B 15000 / 18944 = 0.79, LLaMA-2-7B 15000 / 11008 = 1.36; only GPT-2 XL is stiffer, 20000 / 6400 = 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import (
    PUBLISHED_MULTI_LAYER,
    MultiLayerConfig,
    Published,
    derived,
    multi_layer_settings,
    positive,
    resolve_hyperparameters,
)

CITE = (
    "Meng, Sen Sharma, Andonian, Belinkov, Bau: Mass-Editing Memory in a Transformer. ICLR 2023, "
    "https://arxiv.org/abs/2210.07229"
)


@frozen(kw_only=True)
class MemitConfig(MultiLayerConfig):
    """The paper's hyperparameters. None means: the published value for this model, else derived from its shape."""

    mom2_weight: float | None = derived("lambda: how much old keys weigh against new ones in the update", positive)


USUAL = 15000.0
WEIGHT: Mapping[str, float] = {"gpt2": 20000.0, "gpt_neox": 20000.0}
"""lambda of the published models, by family; the usual one otherwise."""


def derive(config: MemitConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model, with the reason for its value."""
    known, inner = PUBLISHED_MULTI_LAYER.get(facts.shape.key), facts.shape.inner
    weight = {"mom2_weight": WEIGHT.get(facts.shape.family, USUAL)}
    own = Setting(float(inner), f"length of a key, {inner}: a typical key is moved half way in each layer")
    return multi_layer_settings(config, facts) | resolve_hyperparameters(
        config, known and Published(known.source, weight), {"mom2_weight": own}
    )


def build(config: MemitConfig) -> Editor:
    """The editor; imports torch."""
    from ke_plugin_memit.editor import Memit  # noqa: PLC0415  built late

    return Memit(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``memit``."""
    return [
        EditorSpec(
            name="memit",
            summary="writes many facts at once into the MLP weights of a few layers, by least squares",
            config=MemitConfig,
            build=build,
            settings=derive,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
