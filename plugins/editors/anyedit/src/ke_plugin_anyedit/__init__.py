"""Editors ``anyedit`` and ``anyedit-alphaedit``: AnyEdit (Jiang et al., ICML 2025) with two base editors.

``anyedit`` trains one block, as UnKE does; layer and target are UnKE's. ``anyedit-alphaedit`` writes into the MLP
projections of several layers, as AlphaEdit does; layers and target are MEMIT's. The published window depends on the
model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import evolve, frozen, validators

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, hookimpl, option
from ke_weights import (
    NULL_SPACE_SETTINGS,
    PUBLISHED_LONG_ANSWERS,
    BlockConfig,
    LongTargetConfig,
    Published,
    block_settings,
    corpus_option,
    covariance_tokens,
    derived,
    document_length_option,
    multi_layer_settings,
    positive,
    resolve_hyperparameters,
    with_memit_values,
)

CITE = (
    "Jiang, Fang, Zhang, Ma, Wan, Wang, He, Chua: AnyEdit: Edit Any Knowledge Encoded in Language Models. ICML 2025, "
    "https://arxiv.org/abs/2502.05628"
)


def window_option() -> Any:
    """Return the config field of the window."""
    return derived("tokens of the answer per optimized state", positive)


def stop_loss_option() -> Any:
    """Return the config field of the loss that ends an optimization."""
    return option("stop optimizing a state when its loss is below this value", 5e-3, validators.ge(0))


@frozen(kw_only=True)
class AnyEditConfig(BlockConfig):
    """Options of ``anyedit``."""

    window: int | None = window_option()
    stop_loss: float = stop_loss_option()


@frozen(kw_only=True)
class AnyEditAlphaEditConfig(LongTargetConfig):
    """Options of ``anyedit-alphaedit``."""

    window: int | None = window_option()
    stop_loss: float = stop_loss_option()
    layers: tuple[int, ...] | Literal["trace"] | None = derived(
        "layers to edit, in ascending order, or trace (the layers that ke trace suggests); states are at the last"
    )
    nullspace_threshold: float | None = derived(
        "write only to eigenvectors of the key covariance with eigenvalues below this value", positive
    )
    l2: float | None = derived("weight of |update|^2 (ridge)", positive)
    corpus: str = corpus_option("for the key covariance")
    tokens: int = covariance_tokens()
    document_length: int = document_length_option(1024)


LLAMA, QWEN = ("llama", 32, 4096, 14336), ("qwen2", 28, 3584, 18944)
WINDOWS = {LLAMA: 40, QWEN: 50}
PUBLISHED = {
    key: evolve(known, values={**known.values, "window": WINDOWS[key]}) for key, known in PUBLISHED_LONG_ANSWERS.items()
}
"""The published configurations of AnyEdit with UnKE. Their layers and targets are those of UnKE."""
_LAYERS = {
    "layers": (4, 5, 6, 7, 8), "steps": 25, "lr": 0.5, "weight_decay": 1e-3, "clamp": 4.0, "nullspace_threshold": 2e-2,
    "l2": 10.0,
}  # fmt: skip
PUBLISHED_ALPHAEDIT: Mapping[tuple[str, int, int, int], Published] = {
    LLAMA: Published("LLaMA-3-8B by AnyEdit's authors", _LAYERS | {"window": 40}),
    QWEN: Published("Qwen2.5-7B by AnyEdit's authors", _LAYERS | {"window": 50}),
}
"""The published configurations of AnyEdit with AlphaEdit."""
WINDOW = Setting(40, "published for LLaMA-3-8B (Qwen2.5-7B: 50)")


def derive(config: AnyEditConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter of ``anyedit`` that depends on the model, with the reason for its value."""
    window = resolve_hyperparameters(config, PUBLISHED.get(facts.shape.key), {"window": WINDOW})
    return block_settings(config, facts, PUBLISHED) | window


def derive_alphaedit(config: AnyEditAlphaEditConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return every hyperparameter of ``anyedit-alphaedit`` that depends on the model, with the reason for its value."""
    otherwise = {"window": WINDOW, **NULL_SPACE_SETTINGS}
    own = resolve_hyperparameters(config, PUBLISHED_ALPHAEDIT.get(facts.shape.key), otherwise)
    return multi_layer_settings(config, facts, table=with_memit_values(PUBLISHED_ALPHAEDIT)) | own


def build(config: AnyEditConfig) -> Editor:
    """Return ``anyedit``; imports torch."""
    from ke_plugin_anyedit.editor import AnyEdit  # noqa: PLC0415  built late

    return AnyEdit(config, derive)


def build_alphaedit(config: AnyEditAlphaEditConfig) -> Editor:
    """Return ``anyedit-alphaedit``; imports torch."""
    from ke_plugin_anyedit.layers import AnyEditAlphaEdit  # noqa: PLC0415  built late

    return AnyEditAlphaEdit(config, derive_alphaedit)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``anyedit`` and ``anyedit-alphaedit``."""
    return [
        EditorSpec(
            name="anyedit",
            summary="writes long answers window by window: one hidden state for each, then trains one block",
            config=AnyEditConfig,
            build=build,
            settings=derive,
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
        ),
        EditorSpec(
            name="anyedit-alphaedit",
            summary="writes long answers window by window into several layers, in the null space of common keys",
            config=AnyEditAlphaEditConfig,
            build=build_alphaedit,
            settings=derive_alphaedit,
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
        ),
    ]
