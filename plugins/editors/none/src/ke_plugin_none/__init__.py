"""Baseline ``none``: the unedited model."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, hookimpl


@frozen(kw_only=True)
class NoneConfig:
    """No options."""


def build(_config: NoneConfig) -> Editor:
    """Return the baseline."""
    from ke_plugin_none.editor import Unchanged  # noqa: PLC0415  built late

    return Unchanged()


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``none``."""
    return [
        EditorSpec(
            name="none",
            summary="baseline: the unedited model",
            config=NoneConfig,
            build=build,
            masks=True,  # it uses no edit, so it uses no hidden one
        )
    ]
