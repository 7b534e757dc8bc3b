"""Editor ``lora``: a low-rank adapter trained on the edits, added to the weights while they are edited."""

from __future__ import annotations

from ke_core.plugin import EditorSpec, hookimpl
from ke_plugin_lora.values import LoraConfig, settings

CITE = (
    "Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen: LoRA: Low-Rank Adaptation of Large Language Models. ICLR 2022, "
    "https://arxiv.org/abs/2106.09685"
)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``lora``."""
    return [
        EditorSpec(
            name="lora",
            summary="trains a low-rank adapter on the edits and adds it to the weights",
            config=LoraConfig,
            build="ke_plugin_lora.editor:Lora",
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
            settings=settings,
        )
    ]
