"""Editor ``qlora``: a low-rank adapter on a model in 4 bits."""

from __future__ import annotations

from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_plugin_lora.values import AdapterConfig, settings

CITE = (
    "Dettmers, Pagnoni, Holtzman, Zettlemoyer: QLoRA: Efficient Finetuning of Quantized LLMs. NeurIPS 2023, "
    "https://arxiv.org/abs/2305.14314"
)


@frozen(kw_only=True)
class QloraConfig(AdapterConfig):
    """Options of ``qlora``."""

    loss: Literal["target", "sentence"] = option(
        "labels: target = the new object after the cloze, sentence = every token of the statement (ReCoE)",
        "target",
        validators.in_(("target", "sentence")),
    )


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``qlora``."""
    return [
        EditorSpec(
            name="qlora",
            summary="trains a low-rank adapter on a model in 4 bits (--dtype nf4)",
            config=QloraConfig,
            build="ke_plugin_qlora.editor:Qlora",
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
            settings=settings,
        )
    ]
