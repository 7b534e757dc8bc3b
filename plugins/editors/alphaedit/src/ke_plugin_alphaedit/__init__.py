"""Editor ``alphaedit``: null-space constrained knowledge editing (Fang et al., ICLR 2025).

Hyperparameters are published or derived. The two of AlphaEdit itself depend on the scale of a model's keys, unlike
MEMIT's lambda: a threshold on eigenvalues of C = E[k k^T], and a ridge relative to |P k|^2. For a model without
published values, both are derived from the spectrum of C (``ke_weights.nullspace``) and are None until then. For a
model with published values of MEMIT only, layers and target are MEMIT's, and their reasons state that.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import (
    NULL_SPACE_SETTINGS,
    MultiLayerConfig,
    Published,
    derived,
    multi_layer_settings,
    positive,
    resolve_hyperparameters,
    with_memit_values,
)

CITE = (
    "Fang, Jiang, Wang, Ma, Shi, Wang, He, Chua: AlphaEdit: Null-Space Constrained Knowledge Editing for Language "
    "Models. ICLR 2025, https://arxiv.org/abs/2410.02355"
)


@frozen(kw_only=True)
class AlphaEditConfig(MultiLayerConfig):
    """Hyperparameters. None means: the published value for this model, else derived from its shape."""

    nullspace_threshold: float | None = derived(
        "write only to eigenvectors of the key covariance with eigenvalues below this value", positive
    )
    l2: float | None = derived("weight of |update|^2 (ridge)", positive)


_OWN = {"nullspace_threshold": 2e-2, "l2": 10.0}
PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published("GPT-2 XL by AlphaEdit's authors", _OWN),
    ("gptj", 28, 4096, 16384): Published("GPT-J by AlphaEdit's authors", _OWN),
    ("llama", 32, 4096, 14336): Published(
        "LLaMA-3-8B by AlphaEdit's authors", _OWN, "some versions of EasyEdit have an l2 of 1"
    ),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by EasyEdit", _OWN | {"l2": 1.0}),
}
"""The published configurations of AlphaEdit. Their layers and targets are those of MEMIT."""


def derive(config: AlphaEditConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter that depends on the model, with the reason for its value."""
    own = resolve_hyperparameters(config, PUBLISHED.get(facts.shape.key), NULL_SPACE_SETTINGS)
    return multi_layer_settings(config, facts, table=with_memit_values(PUBLISHED)) | own


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``alphaedit``."""
    return [
        EditorSpec(
            name="alphaedit",
            summary="MEMIT with updates in the null space of common keys and of earlier edits",
            config=AlphaEditConfig,
            build="ke_plugin_alphaedit.editor:AlphaEdit",
            settings=derive,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
