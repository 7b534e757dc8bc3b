"""Editor ``melo``: a vector database selects a small LoRA block for each prompt (MELO, Yu et al. 2024)."""

from __future__ import annotations

from ke_core.plugin import EditorSpec, hookimpl
from ke_plugin_melo.values import MeloConfig, settings

CITE = (
    "Yu, Chen, Zhou, He: MELO: Enhancing Model Editing with Neuron-Indexed Dynamic LoRA. AAAI 2024, "
    "https://arxiv.org/abs/2312.11795"
)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``melo``."""
    return [
        EditorSpec(
            name="melo",
            summary="a vector database in one layer selects a small LoRA block in later layers for each prompt",
            config=MeloConfig,
            build="ke_plugin_melo.editor:Melo",
            settings=settings,
            cite=CITE,
            needs_weights=True,
            adaptor=True,
            edited_form="cloze",
            load=lambda editor, session, path: editor.load(session, path),
        )
    ]
