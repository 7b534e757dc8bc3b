"""Editor ``nse``: Neuron-Level Sequential Editing (Jiang et al., ACL 2025).

NSE is MEMIT for a stream of edits. It optimizes every target on the original weights, changes only the weights of the
most active neurons, keeps the outputs for the keys of earlier edits, and repeats the update for edits that are still
far from their target. Layers and target are MEMIT's.

``alpha`` and ``upper`` are distances |z - h| and thus depend on the scale of a model's hidden states. For a model
without published values both are derived from |h|, the typical norm of a state at the last edited layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import (
    MultiLayerConfig,
    Published,
    derived,
    multi_layer_settings,
    not_negative,
    positive,
    resolve_hyperparameters,
    with_memit_values,
)

CITE = (
    "Jiang, Fang, Zhang, Zhang, Wang, Liang, Wang: Neuron-Level Sequential Editing for Large Language Models. "
    "ACL 2025, https://arxiv.org/abs/2410.04045"
)
NEAR = 0.25
"""alpha of a model without published values, relative to the norm of a hidden state."""


@frozen(kw_only=True)
class NseConfig(MultiLayerConfig):
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    alpha: float | None = derived("an edit whose |z - h| is at most this value is finished", not_negative)
    upper: float | None = derived("an edit whose |z - h| is at least this value is not written", positive)
    p: float | None = derived(
        "write the most active neurons, up to this fraction of the sum of all activations; 1 = all neurons",
        validators.optional([validators.gt(0), validators.le(1)]),
    )
    passes: int | None = derived("maximum number of updates of all layers", positive)
    mom2_weight: float | None = derived(
        "lambda: weight of the key covariance relative to the keys of the edits", positive
    )


_NSE = {"mom2_weight": 15000.0, "passes": 2}
PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published(
        "GPT-2 XL by NSE's authors", _NSE | {"alpha": 35.0, "upper": 150.0, "p": 1.0, "mom2_weight": 10000.0}
    ),
    ("gptj", 28, 4096, 16384): Published("GPT-J by NSE's authors", _NSE | {"alpha": 15.0, "upper": 100.0, "p": 0.8}),
    ("llama", 32, 4096, 14336): Published(
        "LLaMA-3-8B by NSE's authors", _NSE | {"alpha": 2.5, "upper": 50.0, "p": 1.0}
    ),
}
"""The published values of NSE. Layers and targets are those of MEMIT."""


def derive(config: NseConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter that depends on the model, with the reason for its value."""
    shape, published = facts.shape, PUBLISHED.get(facts.shape.key)
    shared = multi_layer_settings(config, facts, table=with_memit_values(PUBLISHED))
    own = {
        "p": Setting(0.8, "published for GPT-J; 1 for GPT-2 XL and LLaMA-3-8B, which writes every neuron"),
        "passes": Setting(2, "published for every model"),
        "mom2_weight": Setting(
            float(shape.inner), f"key dimension, {shape.inner}: moves a typical key half of the way in each layer"
        ),
    }
    limits = {"alpha": Setting(0.0, ""), "upper": Setting(0.0, "")}
    if published is None and (config.alpha is None or config.upper is None):
        limits = _limits(facts, shared)
    return shared | resolve_hyperparameters(config, published, own | limits)


def _limits(facts: ModelFacts, found: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return alpha and upper from |h|, the norm of a typical state at the last edited layer.

    The clamp bounds |z - h| of an edit of the original model by clamp |h|. A larger distance comes from earlier edits
    that moved h, and an update of that size would ruin the model.
    """
    layer = found["layers"].value[-1]
    if not 0 <= layer < facts.shape.blocks:
        layer = facts.shape.blocks - 1  # a missing layer is refused later, when the model is opened
    size, clamp = facts.scale(layer) * sqrt(facts.shape.hidden), found["clamp"].value
    norm = f"the norm of a typical hidden state at layer {layer}, {size:.3g}"
    return {
        "alpha": Setting(float(f"{NEAR * size:.2g}"), f"{NEAR:.0%} of {norm}"),
        "upper": Setting(
            float(f"{2 * clamp * size:.2g}"),
            f"twice clamp times {norm}: twice the largest distance without earlier edits",
        ),
    }


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``nse``."""
    return [
        EditorSpec(
            name="nse",
            summary="MEMIT for streams: targets of the original model, and updates of the most active neurons only",
            config=NseConfig,
            build="ke_plugin_nse.editor:Nse",
            settings=derive,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
