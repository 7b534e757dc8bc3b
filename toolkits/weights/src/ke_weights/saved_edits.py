"""A folder with a saved edited model: the file of ``Edited.save``, and its metadata.

``ke edit --out`` writes the folder for an adaptor. ``ke verify`` and ``ke serve --adaptor`` load it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from attrs import field, frozen
from click.core import ParameterSource

from ke_core.app import (
    Catalog,
    Component,
    ModelChoice,
    ModelRef,
    ResolvedComponent,
    choose_again,
    model_choice,
    to_bytes,
)
from ke_core.plugin import (
    BadPatch,
    Details,
    Edited,
    EditorSpec,
    Session,
    SourcedEdit,
    SupportsSave,
    file_errors,
    from_json,
    read_object,
    to_json,
    write_atomic,
)

INFO, STATE = "ke_edit.json", "ke_state.safetensors"
EDIT_SCHEMA = 1
AGAIN = "save it again with ke edit --out"


@frozen(kw_only=True)
class SavedEdit:
    """``model``: the unedited model; ``folder``: it was loaded from a folder. ``edited``: the digest when edited."""

    schema: int = EDIT_SCHEMA
    ke: str
    editor: Component
    model: ModelRef
    folder: bool
    edits: tuple[SourcedEdit, ...]
    edited: str
    details: Details = field(factory=dict)

    def editor_in(self, catalog: Catalog) -> ResolvedComponent[Any]:
        """Return the editor with its recorded options. Raises UnknownComponent, and BadPatch without ``load``."""
        found = choose_again(catalog, "editor", self.editor, files={})
        if not (isinstance(found.spec, EditorSpec) and found.spec.load):
            raise BadPatch(
                f"editor {self.editor.name} as installed cannot load saved edits",
                hint=f"install {self.editor.distribution} {self.editor.version}",
            )
        return found


def is_saved_edit(path: Path) -> bool:
    """Return whether ``path`` is a folder of ``write_saved_edit``."""
    return (path / INFO).is_file()


def write_saved_edit(folder: Path, saved: SavedEdit, model: SupportsSave) -> None:
    """Write the state of the edited ``model``, and ``saved``, into ``folder``."""
    with file_errors(f"cannot write {folder}"):
        model.save(folder / STATE)
    write_atomic(folder / INFO, to_bytes(to_json(saved)))


def read_saved_edit(folder: Path) -> SavedEdit:
    """Read a folder of ``write_saved_edit``, without the state. Raises BadPatch."""
    if not is_saved_edit(folder):
        raise BadPatch(f"{folder} is not a saved edit: {INFO} is missing", hint=AGAIN)
    raw = read_object(folder / INFO, error=BadPatch, hint=AGAIN)
    if raw.get("schema") != EDIT_SCHEMA:
        raise BadPatch(f"{folder} has format {raw.get('schema')}, this ke reads {EDIT_SCHEMA}", hint=AGAIN)
    return from_json(raw, SavedEdit, of=str(folder / INFO), error=BadPatch, hint=AGAIN)


@contextmanager
def opened_edit(
    folder: Path, saved: SavedEdit, session: Session[Any], editor: ResolvedComponent[Any]
) -> Iterator[Edited]:
    """Edit the session's model with the saved state while the context is active.

    Raises BadPatch for another unedited model, and if the result is not the edited model that was saved.
    """
    model = session.model
    model.state()  # rereads the weights for the digest
    if model.digest != saved.model.digest:
        raise BadPatch(
            f"{folder} was made for another model: {saved.model.id} with the digest {saved.model.digest[:12]}, "
            f"and this is {model.id} with {model.digest[:12]}",
            hint="choose that model, loaded with the same --dtype, and with --chat if it was",
        )
    assert isinstance(editor.spec, EditorSpec)
    assert editor.spec.load is not None
    with editor.spec.load(editor.build(), session, folder / STATE) as edited:
        model.state()
        if model.digest != saved.edited:
            raise BadPatch(
                f"{folder} gives another edited model than the one that was saved: its digest is {model.digest[:12]}, "
                f"and was {saved.edited[:12]} with {saved.editor.distribution} {saved.editor.version}",
                hint=AGAIN,
            )
        yield edited


def recorded_model_choice(
    context: click.Context, given: Mapping[str, Any], model: ModelRef, *, folder: bool
) -> ModelChoice:
    """Return the model that an edit was made for, with its recorded options unless the command line sets them.

    Raises UsageError if only the name of its ``folder`` is known.
    """
    explicit = {name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if "model" not in explicit and folder:
        raise click.UsageError(f"the edit was made for a model in a folder called {model.id!r}: add --model FOLDER")
    recorded = {"model": model.reference, "dtype": model.dtype, "chat": model.chat}
    return model_choice({**given, **{name: value for name, value in recorded.items() if name not in explicit}})
