"""Editor ``memit``: Mass-Editing Memory in a Transformer (Meng et al., ICLR 2023).

Hyperparameters are published or derived from the model's shape. Layers and target come from
``ke_weights.hyperparameters``. MEMIT's own hyperparameter is lambda (``mom2_weight``). For one edit, the update of one
layer makes the fraction

    s / (lambda + s),    s = k^T C^-1 k,

of the required change (MEMIT equation 14 for one key). The mean of s over the tokens of C = E[k k^T] is tr(C^-1 C) = f,
the key dimension, in every model. So lambda = f moves a typical key half of the way in each layer, as the published
values do: GPT-J 15000 / 16384 = 0.92, LLaMA-3-8B 15000 / 14336 = 1.05, Qwen2.5-7B 15000 / 18944 = 0.79, LLaMA-2-7B
15000 / 11008 = 1.36. Only GPT-2 XL has a larger one, 20000 / 6400 = 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import EditorSpec, ModelFacts, Setting, hookimpl
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
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    mom2_weight: float | None = derived(
        "lambda: weight of the key covariance relative to the keys of the edits", positive
    )


PUBLISHED_WEIGHT = 15000.0
WEIGHT: Mapping[str, float] = {"gpt2": 20000.0, "gpt_neox": 20000.0}
"""lambda of the published models by family; others have PUBLISHED_WEIGHT."""


def derive(config: MemitConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter that depends on the model, with the reason for its value."""
    published, inner = PUBLISHED_MULTI_LAYER.get(facts.shape.key), facts.shape.inner
    weight = {"mom2_weight": WEIGHT.get(facts.shape.family, PUBLISHED_WEIGHT)}
    derived_weight = Setting(float(inner), f"key dimension, {inner}: moves a typical key half of the way in each layer")
    return multi_layer_settings(config, facts) | resolve_hyperparameters(
        config, published and Published(published.source, weight), {"mom2_weight": derived_weight}
    )


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``memit``."""
    return [
        EditorSpec(
            name="memit",
            summary="writes many facts at once into the MLP weights of several layers",
            config=MemitConfig,
            build="ke_plugin_memit.editor:Memit",
            settings=derive,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
