"""Editor ``pmet``: Precise Model Editing in a Transformer (Li et al., AAAI 2024).

PMET spreads an update over layers as MEMIT does. It differs in its target (an offset of the attention's output and one
of the MLP's, optimized together; only the MLP's is written) and in how the residual is divided.

Clamp and decay are relative to the outputs of attention and MLP, which are smaller than the residual stream, so MEMIT's
values do not apply to them. Layers, steps and learning rate without published values of PMET are MEMIT's. lambda is
derived as MEMIT's is: the key dimension (README of ke-plugin-memit).
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

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
    "Li, Li, Song, Yang, Ma, Yu: PMET: Precise Model Editing in a Transformer. AAAI 2024, "
    "https://arxiv.org/abs/2308.08742"
)


@frozen(kw_only=True)
class PmetConfig(MultiLayerConfig):
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    kl: float | None = derived(  # type: ignore[assignment]  # published values differ between models
        "weight of KL(current || original) at the subject in the loss of the target", not_negative
    )
    mom2_weight: float | None = derived(
        "lambda: weight of the key covariance relative to the keys of the edits", positive
    )


_GPTJ = {
    "layers": (3, 4, 5, 6, 7, 8), "steps": 30, "lr": 0.2, "weight_decay": 0.5, "clamp": 0.75, "kl": 1.0,
    "mom2_weight": 6000.0,
}  # fmt: skip
_LLAMA = {
    "layers": (4, 5, 6, 7, 8), "steps": 25, "lr": 0.5, "weight_decay": 0.5, "clamp": 1.0, "kl": 0.0625,
    "mom2_weight": 15000.0,
}  # fmt: skip
PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gptj", 28, 4096, 16384): Published("GPT-J by PMET's authors", _GPTJ),
    ("gpt_neox", 44, 6144, 24576): Published(
        "GPT-NeoX by PMET's authors",
        _GPTJ | {"layers": (6, 7, 8, 9, 10), "lr": 0.5, "clamp": 0.8, "kl": 0.8, "mom2_weight": 15000.0},
    ),
    ("llama", 32, 4096, 11008): Published("LLaMA-2-7B by EasyEdit", _LLAMA | {"steps": 20}),
    ("llama", 28, 3072, 8192): Published("LLaMA-3.2-3B by EasyEdit", _LLAMA),
}
"""The published configurations of PMET."""


def derive(config: PmetConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter that depends on the model, with the reason for its value."""
    shape = facts.shape
    reason = f"published for models with {shape.norm}"
    otherwise = {
        "weight_decay": Setting(0.5, "published for every model"),
        "clamp": Setting(1.0 if shape.rms_norm else 0.75, reason),
        "kl": Setting(0.0625 if shape.rms_norm else 1.0, reason),
        "mom2_weight": Setting(
            float(shape.inner), f"key dimension, {shape.inner}: moves a typical key half of the way in each layer"
        ),
    }
    own = resolve_hyperparameters(config, PUBLISHED.get(shape.key), otherwise)
    return multi_layer_settings(config, facts, table=with_memit_values(PUBLISHED)) | own


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``pmet``."""
    return [
        EditorSpec(
            name="pmet",
            summary="MEMIT with targets of attention and MLP, of which only the MLP's are written",
            config=PmetConfig,
            build="ke_plugin_pmet.editor:Pmet",
            settings=derive,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
