"""The commands and hooks of the weights toolkit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ke_core.plugin import LazyCommand, ModelFacts, Session, hookimpl

if TYPE_CHECKING:
    import click


COMMANDS = {
    "edit": ("Edit and ship", "Edit facts in a model and save the model or a patch."),
    "patch": ("Edit and ship", "Describe, apply, revert and compare patches."),
    "verify": ("Edit and ship", "Check an edited model against a suite of facts."),
    "train": ("Prepare", "Train an editor that learns from examples."),
    "stats": ("Prepare", "Compute and list key covariances."),
    "trace": ("Inspect", "Find the layers that store a fact (causal tracing)."),
}


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add the commands, each imported when it is used."""
    for name, (section, summary) in COMMANDS.items():
        group.add_command(LazyCommand(name, f"ke_weights.cli.{name}:command", summary, section))


@hookimpl
def ke_save_edit(edited: Any, what: str, path: Path, force: bool) -> bool:  # noqa: FBT001  a hook's signature
    """Save the active edits of a weight editor."""
    from ke_weights.saving import save_active_edit  # noqa: PLC0415  imports torch

    save_active_edit(edited, what, path, force=force)
    return True


@hookimpl
def ke_model_facts(session: Session[Any]) -> ModelFacts | None:
    """Return the shape, the scale of the states and the traced layers of a decoder."""
    if not hasattr(session.model, "module"):
        return None
    from ke_weights.facts import model_facts  # noqa: PLC0415  imports torch
    from ke_weights.modules import find_parts  # noqa: PLC0415  imports torch

    return model_facts(session, find_parts(session.model.module))


@hookimpl
def ke_hookspecs() -> list[object]:
    """Declare ``ke_update_wrappers`` and ``ke_read_suite``."""
    from ke_weights import hookspecs  # noqa: PLC0415  only here

    return [hookspecs]


@hookimpl
def ke_composed_component(kind: str, name: str, catalog: Any, plugins: Any) -> Any | None:
    """Return an editor with update wrappers, such as ``memit+rect``."""
    from ke_weights.composing import composed_editor  # noqa: PLC0415  only for such names

    return composed_editor(name, catalog, plugins) if kind == "editor" else None
