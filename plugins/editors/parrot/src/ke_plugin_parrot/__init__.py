"""Baseline ``parrot``: answers every question with the object of the case's last edit, without a model."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, hookimpl


@frozen(kw_only=True)
class ParrotConfig:
    """No options."""


def build(_config: ParrotConfig) -> Editor:
    """Return the baseline."""
    from ke_plugin_parrot.editor import Parrot  # noqa: PLC0415  built late

    return Parrot()


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``parrot``."""
    return [
        EditorSpec(
            name="parrot",
            summary="baseline: answers every question with the object of the case's last edit",
            config=ParrotConfig,
            build=build,
            needs_model=False,
            masks=True,
            own_prompt=True,
            uses_own_edits=True,
        )
    ]
