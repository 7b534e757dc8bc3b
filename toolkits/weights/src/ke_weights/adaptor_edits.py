"""``ke edit`` with an adaptor, and ``ke verify`` of the saved state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from ke_core.app import Catalog, untouched
from ke_core.plugin import EditFailed, Session, SupportsSave
from ke_weights.completions import Completion, PromptWithObjects, compare, compare_prompts, complete_prompts
from ke_weights.editing import EditJob, EditResult, edits_made
from ke_weights.saved_edits import SavedEdit, opened_edit, write_saved_edit


def make_adaptor(work: EditJob, write: Callable[[SavedEdit, Path], None]) -> EditResult:
    """Edit, save, load what was saved, query the model, and call ``write`` with the folder.

    The loaded edit is queried, so the answers are those of the written files. Raises EditFailed if the editor fails,
    and BadPatch if the loaded model is not the saved one. The model is restored in any case.
    """
    session, name = work.loaded.session, work.chosen.spec.name
    prompts = compare_prompts(work.edits)
    before = complete_prompts(session, prompts)
    with TemporaryDirectory() as scratch, untouched(session.model):
        folder, state = Path(scratch) / "saved", Path(scratch) / "state"
        folder.mkdir()
        started = perf_counter()
        with edits_made(work) as (edited, details):
            seconds = perf_counter() - started
            session.model.state()  # rereads the weights for the digest
            if session.model.digest == work.loaded.base.model.digest:
                raise EditFailed(f"{name} changed nothing", hint=f"check its options with ke show {name}")
            if not isinstance(edited, SupportsSave):
                raise EditFailed(
                    f"the edited model of {name} has no save(path)", hint=f"use {name} with ke eval or ke serve"
                )
            edited.save(state)
            saved = SavedEdit(
                ke=version("ke-core"),
                editor=work.chosen.component,
                model=work.loaded.base.model,
                folder=work.loaded.base.folder,
                edits=work.edits,
                edited=session.model.digest,
                details=details,
            )
        write_saved_edit(folder, saved, state)
        with opened_edit(folder, saved, session, work.chosen):
            after = complete_prompts(session, prompts)
        write(saved, folder)
    return EditResult(saved=saved, comparisons=compare(work.edits, before, after), seconds=seconds)


def adaptor_answers(
    session: Session[Any], folder: Path, saved: SavedEdit, catalog: Catalog, prompts: Sequence[PromptWithObjects]
) -> tuple[Mapping[str, Completion], Mapping[str, Completion]]:
    """Return the completions without the saved edits, and with them."""
    with untouched(session.model), opened_edit(folder, saved, session, saved.editor_in(catalog)):
        edited = complete_prompts(session, prompts)
    return complete_prompts(session, prompts), edited
