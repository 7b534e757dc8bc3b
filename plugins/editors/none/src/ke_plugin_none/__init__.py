"""Control ``none``: nothing is edited, the model answers as it is."""

from __future__ import annotations

from attrs import frozen

from ke_core.plugin import Editor, EditorSpec, hookimpl


@frozen(kw_only=True)
class NoneConfig:
    """No options."""


def build(_config: NoneConfig) -> Editor:
    """The control."""
    from ke_plugin_none.editor import Unchanged  # noqa: PLC0415  built late

    return Unchanged()


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``none``."""
    return [
        EditorSpec(
            name="none",
            summary="control: the model is left as it is",
            config=NoneConfig,
            build=build,
            masks=True,  # it uses no edit, so it uses no hidden one
        )
    ]
