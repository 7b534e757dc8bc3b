"""Baseline ``none``: the unedited model."""

from __future__ import annotations

from ke_core.plugin import EditorSpec, hookimpl


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``none``."""
    return [
        EditorSpec(
            name="none",
            summary="baseline: the unedited model",
            build="ke_plugin_none.editor:Unchanged",
            masks=True,  # it uses no edit, so it uses no hidden one
        )
    ]
