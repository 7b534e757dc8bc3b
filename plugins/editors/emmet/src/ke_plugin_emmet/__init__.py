"""Editor ``emmet``: equality-constrained mass editing (Gupta et al., 2024).

Hyperparameters are published or derived from the model's shape. With softening e and weight w, the update is MEMIT's at
one layer with lambda = w e: 100000 * 0.1 = 10000 for GPT-J and LLaMA, 10000 * 0.1 = 1000 for GPT-2 XL. MEMIT's lambda
is derived as the key dimension f, so here w = f / 0.1: with the default e, a typical key moves half of the way. The
target is of the same kind as MEMIT's. For a model with published values of MEMIT only, the target is MEMIT's, and its
reason states that.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, ModelFacts, Setting, hookimpl, option
from ke_weights import (
    Published,
    SingleLayerConfig,
    derived,
    positive,
    resolve_hyperparameters,
    single_layer_settings,
    template_length,
    with_memit_values,
)

CITE = (
    "Gupta, Sajnani, Anumanchipalli: A Unified Framework for Model Editing. Findings of EMNLP 2024, "
    "https://arxiv.org/abs/2403.14236"
)


@frozen(kw_only=True)
class EmmetConfig(SingleLayerConfig):
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    template_length: int = template_length()
    mom2_weight: float | None = derived("w: weight of the key covariance before softening", positive)
    softening: float = option(
        "e: how much edits may miss their targets; 0 = exact; w = 1 and e = lambda is MEMIT", 0.1, validators.ge(0)
    )


SOFTENING = 0.1
_OWN = {"layer": 5, "mom2_weight": 100_000.0}
PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published(
        "GPT-2 XL by EasyEdit", {"layer": 17, "mom2_weight": 10_000.0}, "EMMET's authors have a weight of 1000"
    ),
    ("gptj", 28, 4096, 16384): Published("GPT-J by EasyEdit", _OWN, "EMMET's authors have a weight of 10000"),
    ("llama", 32, 4096, 11008): Published(
        "LLaMA-2-7B by EasyEdit",
        _OWN,
        "EMMET's authors have a weight of 10000, a weight decay of 0.5 and a clamp of 0.75",
    ),
    ("llama", 28, 3072, 8192): Published("LLaMA-3.2-3B by EasyEdit", _OWN),
}
"""The published configurations of EMMET. Their targets are those of MEMIT."""


def derive(config: EmmetConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter that depends on the model, with the reason for its value."""
    inner = facts.shape.inner
    clamp = 4.0 if facts.shape.rms_norm else 0.75
    derived_weight = Setting(
        inner / SOFTENING, f"key dimension, {inner}, over {SOFTENING}: moves a typical key half of the way"
    )
    own = resolve_hyperparameters(config, PUBLISHED.get(facts.shape.key), {"mom2_weight": derived_weight})
    return single_layer_settings(config, facts, table=with_memit_values(PUBLISHED), clamp=clamp) | own


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``emmet``."""
    return [
        EditorSpec(
            name="emmet",
            summary="writes many facts at once into one layer: ROME for batches",
            config=EmmetConfig,
            build="ke_plugin_emmet.editor:Emmet",
            settings=derive,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
