"""Which editors compute low-rank updates, the only ones that a LoRA adapter can hold.

An editor or an update wrapper whose updates have full rank declares it::

    class Ft:
        low_rank: ClassVar[bool] = False

Without a declaration, the updates are expected to be low-rank; ``write_adapter`` refuses others when they are computed.
"""

from __future__ import annotations

from typing import Any

from ke_core.app import Catalog, ResolvedComponent, resolve_component
from ke_core.plugin import BadConfig, EditorSpec, KEError
from ke_weights.editor_choice import weight_editors

WHY = "a LoRA adapter holds only low-rank updates of weights"


def refuse_without_adapter(chosen: ResolvedComponent[Any], catalog: Catalog) -> None:
    """Raise BadConfig for an editor whose edits a LoRA adapter cannot hold, before a model is loaded."""
    spec = chosen.spec
    assert isinstance(spec, EditorSpec)
    reason = _reason(chosen)
    if reason:
        can = ", ".join(low_rank_editors(catalog)) or "none is installed: pip install ke-plugin-memit"
        raise BadConfig(f"editor {spec.name} {reason}, and {WHY}", hint=f"editors with low-rank updates: {can}")


def _reason(chosen: ResolvedComponent[Any]) -> str:
    """Return why the edits do not fit into an adapter; empty if they may."""
    spec = chosen.spec
    if not spec.needs_weights:
        return "changes no weights"
    if spec.adaptor:
        return "is an adaptor, which changes the outputs of layers"
    part = _full_rank_part(spec.name, chosen.built)
    return f"computes updates of full rank{f' ({part})' if part != spec.name else ''}" if part else ""


def _full_rank_part(name: str, editor: object) -> str:
    """Return the name of the editor or the first update wrapper that makes updates of full rank."""
    if not getattr(editor, "low_rank", True):
        return name
    wrappers = getattr(editor, "wrappers", {})
    return next((one for one, wrapper in wrappers.items() if not wrapper.low_rank), "")


def low_rank_editors(catalog: Catalog) -> list[str]:
    """Return the installed weight editors whose updates are low-rank with default options."""
    return [name for name in weight_editors(catalog) if _fits(name, catalog)]


def _fits(name: str, catalog: Catalog) -> bool:
    try:
        return not _reason(resolve_component(catalog, "editor", name, {}))
    except KEError:  # it has no default options
        return False
