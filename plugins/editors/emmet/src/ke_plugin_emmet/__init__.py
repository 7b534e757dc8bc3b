"""Editor ``emmet``: equality-constrained mass editing (Gupta et al., 2024).

EMMET's hyperparameters: published where there is a publication, else derived.

With softening e and weight w the update is MEMIT's at one layer with lambda = w e: for GPT-J and LLaMA
100000 * 0.1 = 10000, for GPT-2 XL 10000 * 0.1 = 1000. So what MEMIT's lambda is derived from, the length of a key f,
gives w = f / 0.1 here: a typical key is moved half way when e is left at its default. The target is of the same kind as
MEMIT's: for a model without published values of EMMET, MEMIT's published one is taken, with a reason that says whose it
is.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import (
    PUBLISHED_MULTI_LAYER,
    Published,
    SingleLayerConfig,
    derived,
    positive,
    resolve_hyperparameters,
    single_layer_settings,
    template_length,
)

CITE = (
    "Gupta, Sajnani, Anumanchipalli: A Unified Framework for Model Editing. Findings of EMNLP 2024, "
    "https://arxiv.org/abs/2403.14236"
)


@frozen(kw_only=True)
class EmmetConfig(SingleLayerConfig):
    """The paper's hyperparameters. None means: the published value for this model, else derived from its shape."""

    template_length: int = template_length()
    mom2_weight: float | None = derived("w: how much old keys weigh, before softening", positive)
    softening: float = field(
        default=0.1,
        validator=validators.ge(0),
        metadata={"help": "e: how far edits may be missed; 0 makes each exact, with w = 1 and e = lambda it is MEMIT"},
    )


SOFTENING = 0.1
_OWN = {"layer": 5, "mom2_weight": 100_000.0}
_SHAPES: Mapping[tuple[str, int, int, int], Published] = {
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
PUBLISHED = {
    key: evolve(own, values={**PUBLISHED_MULTI_LAYER[key].values, **own.values}) for key, own in _SHAPES.items()
}
"""The only ones whose configurations of EMMET are public; their targets are those of MEMIT there."""
TARGETS = {key: known.lent("MEMIT") for key, known in PUBLISHED_MULTI_LAYER.items()} | PUBLISHED


def derive(config: EmmetConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model, with the reason for its value."""
    key, inner = facts.shape.key, facts.shape.inner
    clamp = 4.0 if facts.shape.rms_norm else 0.75
    own = Setting(inner / SOFTENING, f"length of a key, {inner}, over {SOFTENING}: a typical key is moved half way")
    return single_layer_settings(config, facts, table=TARGETS, clamp=clamp) | resolve_hyperparameters(
        config, PUBLISHED.get(key), {"mom2_weight": own}
    )


def build(config: EmmetConfig) -> Editor:
    """The editor; imports torch."""
    from ke_plugin_emmet.editor import Emmet  # noqa: PLC0415  built late

    return Emmet(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``emmet``."""
    return [
        EditorSpec(
            name="emmet",
            summary="writes many facts into one layer, each exactly with softening=0, else softened: ROME for batches",
            config=EmmetConfig,
            build=build,
            settings=derive,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
