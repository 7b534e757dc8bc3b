"""Choose the editor of ``ke edit`` and ``ke apply``, and refuse editors whose edits cannot be saved. Without torch."""

from __future__ import annotations

from typing import Any

from ke_core.app import Catalog, Options, ResolvedComponent, directory_entries, reject_unused, resolve_component
from ke_core.plugin import BadConfig, EditorSpec


def choose_editor(name: str, options: Options, catalog: Catalog) -> ResolvedComponent[Any]:
    """Return the editor with its options, not built yet. Raises BadConfig and UnknownComponent."""
    chosen = resolve_component(catalog, "editor", name, options)
    reject_unused(options, [chosen.spec])
    assert isinstance(chosen.spec, EditorSpec)
    refuse_unsaveable(chosen.spec, catalog)
    return chosen


def refuse_unsaveable(spec: EditorSpec, catalog: Catalog) -> None:
    """Raise BadConfig for an editor whose edits cannot be saved, before a model is loaded."""
    if not spec.needs_weights:
        raise BadConfig(
            f"editor {spec.name} changes no weights: this command is for weight editors and adaptors",
            hint=f"ke serve --editor {spec.name}, or ke.edit(..., editor={spec.name!r}) in Python, keeps the edits in "
            f"memory; weight editors: {', '.join(weight_editors(catalog)) or 'none installed'}",
        )
    if spec.adaptor and spec.load is None:
        raise BadConfig(
            f"editor {spec.name} is an adaptor that cannot be saved: its EditorSpec has no load",
            hint="use it with ke eval or ke serve",
        )


def weight_editors(catalog: Catalog) -> list[str]:
    """Return the installed editors that change weights, in the order of the directory, then by name."""
    listed = [entry.name for entry in directory_entries("editor")]
    specs = (catalog.spec("editor", name) for name in catalog.names("editor"))
    found = [spec.name for spec in specs if isinstance(spec, EditorSpec) and spec.editor_kind == "weight editor"]
    return sorted(found, key=lambda name: (listed.index(name) if name in listed else len(listed), name))
