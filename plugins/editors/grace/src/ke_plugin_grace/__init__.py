"""Editor ``grace``: a codebook of keys and trained values in one layer (GRACE, Hartvigsen et al. 2023)."""

from __future__ import annotations

from ke_core.plugin import EditorSpec, hookimpl
from ke_plugin_grace.values import GraceConfig, settings

CITE = (
    "Hartvigsen, Sankaranarayanan, Palangi, Kim, Ghassemi: Aging with GRACE: Lifelong Model Editing with Discrete "
    "Key-Value Adaptors. NeurIPS 2023, https://arxiv.org/abs/2211.11031"
)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``grace``."""
    return [
        EditorSpec(
            name="grace",
            summary="a codebook in one layer: near the prompt of an edit, a trained value replaces the layer's output",
            config=GraceConfig,
            build="ke_plugin_grace.editor:Grace",
            settings=settings,
            cite=CITE,
            needs_weights=True,
            adaptor=True,
            edited_form="cloze",
            load=lambda editor, session, path: editor.load(session, path),
        )
    ]
