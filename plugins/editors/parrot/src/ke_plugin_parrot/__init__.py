"""Baseline ``parrot``: answers every question with the object of the case's last edit, without a model."""

from __future__ import annotations

from ke_core.plugin import EditorSpec, hookimpl


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``parrot``."""
    return [
        EditorSpec(
            name="parrot",
            summary="baseline: answers every question with the object of the case's last edit",
            build="ke_plugin_parrot.editor:Parrot",
            needs_model=False,
            masks=True,
            own_prompt=True,
            uses_own_edits=True,
        )
    ]
