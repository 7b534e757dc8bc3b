"""Editor ``memit``: Mass-Editing Memory in a Transformer (Meng et al., ICLR 2023)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, ModelFacts, Setting, hookimpl
from ke_weights import MultiLayerConfig, derived, positive

CITE = (
    "Meng, Sen Sharma, Andonian, Belinkov, Bau: Mass-Editing Memory in a Transformer. ICLR 2023, "
    "https://arxiv.org/abs/2210.07229"
)


@frozen(kw_only=True)
class MemitConfig(MultiLayerConfig):
    """The paper's hyperparameters. None means: the published value for this model, else derived from its shape."""

    mom2_weight: float | None = derived("lambda: how much old keys weigh against new ones in the update", positive)


def settings(config: MemitConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model."""
    from ke_plugin_memit.derive import derive  # noqa: PLC0415  read when a model is at hand

    return derive(config, facts)


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
            settings=settings,
            cite=CITE,
            needs_weights=True,
            needs_subject=True,
            edited_form="cloze",
        )
    ]
