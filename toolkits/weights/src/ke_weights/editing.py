"""Save an edit: ``ke edit``.

::

    work = prepare_edit(...)           # loads the model, checks the edits
    made = make_edit(work, write)      # queries, edits, queries again, calls `write`

The patch is what a weight editor adds to the weights while its context is active. The patch is then applied to the
base, queried, and passed to ``write``, so the answers are those of the written patch. ``make_adaptor_edit`` does the
same with the state of an adaptor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from attrs import evolve, frozen
from torch import Tensor

from ke_core.app import (
    CallProgress,
    Catalog,
    EditedModel,
    Model,
    ModelChoice,
    ResolvedComponent,
    open_session,
    untouched,
)
from ke_core.plugin import Details, EditFailed, NeedsWeights, Progress, Session, SourcedEdit, SupportsSave, find_model
from ke_plugin_hf.guard import Delta
from ke_plugin_hf.model import HFModel
from ke_weights.completions import PromptComparison, compare, compare_prompts, complete_prompts
from ke_weights.patches.apply import applied
from ke_weights.patches.build import build_patch
from ke_weights.patches.checkpoint import LoadedHistory, check_unchanged, read_history
from ke_weights.patches.format import StoredPatch
from ke_weights.patches.identity import size_of, weights_digest
from ke_weights.patches.info import History, PatchBase
from ke_weights.saved_edits import SavedEdit, opened_edit, write_saved_edit


@frozen(kw_only=True)
class LoadedModel:
    """A model to edit. ``past``: history of the edited checkpoint that it was loaded from, if it is one."""

    session: Session[HFModel]
    base: PatchBase
    past: LoadedHistory | None

    @property
    def model(self) -> HFModel:
        """The session's model."""
        return self.session.model

    @property
    def history(self) -> History | None:
        """The history from the base of an edited checkpoint to this model."""
        return self.past.history if self.past else None


@frozen(kw_only=True)
class EditJob:
    """Everything that the edit needs, checked."""

    loaded: LoadedModel
    edited: EditedModel
    edits: tuple[SourcedEdit, ...]

    @property
    def adaptor(self) -> bool:
        """Whether the editor is an adaptor, whose state is saved instead of a patch."""
        return bool(self.edited.editor.spec.adaptor)


@frozen(kw_only=True)
class EditResult:
    """``patch``: of a weight editor; ``saved``: of an adaptor. ``seconds``: without queries and files."""

    comparisons: tuple[PromptComparison, ...]
    seconds: float
    patch: StoredPatch | None = None
    saved: SavedEdit | None = None


def open_local_session(choice: ModelChoice, catalog: Catalog, progress: Progress, *, seed: int = 0) -> Session[HFModel]:
    """Load a model and open a session with it. Raises NeedsWeights if its weights are not in this process."""
    model = choice.load(catalog, progress)
    if not hasattr(model, "recording"):
        raise NeedsWeights(
            f"the weights of {model.id} are not in this process", hint="use a model that is loaded locally (hf:...)"
        )
    return open_session(model, catalog=catalog, seed=seed, progress=progress, material={})


def open_model_for_edits(choice: ModelChoice, catalog: Catalog, progress: Progress, *, seed: int = 0) -> LoadedModel:
    """Load a model and its edit history. Raises NeedsWeights, and BadPatch for a damaged checkpoint."""
    return with_history(open_local_session(choice, catalog, progress, seed=seed), choice, catalog)


def with_history(session: Session[HFModel], choice: ModelChoice, catalog: Catalog) -> LoadedModel:
    """Return a loaded model with its edit history. Raises BadPatch for a damaged checkpoint."""
    where = Path(find_model(choice.reference, choice.how, catalog)[1].id)
    folder = where if where.is_dir() else None
    past = read_history(folder) if folder else None
    if past is not None:
        check_unchanged(session.model, past, where)
    base = PatchBase(
        model=choice.describe(catalog, session.model),
        weights=weights_digest(session.model.module),
        size=size_of(session.model.module),
        folder=folder is not None,
    )
    return LoadedModel(session=session, base=base, past=past)


def prepare_edit(
    chosen: ResolvedComponent[Any],
    choice: ModelChoice,
    edits: Sequence[SourcedEdit],
    catalog: Catalog,
    progress: CallProgress,
    *,
    seed: int,
) -> EditJob:
    """Load the model, and check the edits. Nothing is changed. ``chosen``: from ``choose_editor``.

    Raises KEErrors: wrong options, an unknown model, edits that cannot be made (each with its reason).
    """
    _ = chosen.built  # raises for wrong options before the model is loaded
    job = edit_job(chosen, choice, open_model_for_edits(choice, catalog, progress, seed=seed), edits, progress)
    job.edited.check(edits)
    return job


def edit_job(
    chosen: ResolvedComponent[Any],
    choice: ModelChoice,
    loaded: LoadedModel,
    edits: Sequence[SourcedEdit],
    progress: CallProgress,
) -> EditJob:
    """Return the job of an editor and a loaded model. The edits are not checked."""
    model = Model(model=loaded.model, choice=choice, progress=progress)
    edited = EditedModel(model=model, editor=chosen, session=loaded.session)
    return EditJob(loaded=loaded, edited=edited, edits=tuple(edits))


def make_edit(work: EditJob, write: Callable[[StoredPatch, Mapping[str, Any]], None]) -> EditResult:
    """Query, edit, and call ``write`` with the patch and the base's own tensors while the model is edited.

    Raises EditFailed if the editor fails, changes nothing, or changes weights without reporting it. The model is
    restored in any case.
    """
    loaded, prompts = work.loaded, compare_prompts(work.edits)
    before = complete_prompts(loaded.session, prompts)
    started = perf_counter()
    with work.edited.active(work.edits), active_patch(work.edited, loaded) as (patch, originals):
        seconds = perf_counter() - started
        after = complete_prompts(loaded.session, prompts)
        write(patch, originals)
    return EditResult(patch=patch, comparisons=compare(work.edits, before, after), seconds=seconds)


@contextmanager
def active_patch(edited: EditedModel, loaded: LoadedModel) -> Iterator[tuple[StoredPatch, Mapping[str, Tensor]]]:
    """Put a patch in the place of the active edits. Yield it, with the digest of the result, and the replaced tensors.

    ``loaded``: the unedited model, before the edits. Raises EditFailed if the edits cannot be saved as a patch.
    """
    deltas = active_deltas(edited)
    with edited.unedited():
        details = _details(edited)
        component, module = edited.editor.component, loaded.model.module
        patch = build_patch(module, deltas, base=loaded.base, editor=component, edits=edited.edits, details=details)
        with applied(loaded.model, patch, loaded.history) as weights:
            loaded.model.state()  # rereads the weights, whose digest is the cache key of completions
            info = evolve(patch.info, edited=weights_digest(module))
            yield evolve(patch, info=info), weights.originals()


def active_deltas(edited: EditedModel) -> dict[str, list[Delta]]:
    """Return the active updates of a weight editor.

    Raises EditFailed if there is none, or if the editor changed the model in another way too.
    """
    model, name = edited.session.model, edited.editor.spec.name
    deltas: dict[str, list[Delta]] = edited.recorded.deltas()
    marks = model.state()
    reported = {f"parameter {parameter}" for parameter in deltas}
    unreported = [mark for mark in marks if marks[mark] != edited.before.get(mark) and mark not in reported]
    if unreported:
        raise EditFailed(
            f"{name} changed {unreported[0]} without session.model.patch(), so it cannot be saved as a patch",
            hint=f"use {name} with ke eval or ke serve. An editor that changes the forward pass is an adaptor: it "
            "calls session.model.adapt() and sets adaptor=True in its EditorSpec (docs/adaptors.md)",
        )
    if not deltas:
        raise EditFailed(f"{name} changed no weight", hint=f"check its options with ke show {name}")
    return deltas


def _details(edited: EditedModel) -> Details:
    return edited.details[0] if len(edited.details) == 1 else {"batches": list(edited.details)}


def make_adaptor_edit(work: EditJob, write: Callable[[Path], None]) -> EditResult:
    """Edit, save, load what was saved, query the model, and call ``write`` with the saved folder.

    The loaded edit is queried, so the answers are those of the written files. Raises EditFailed if the editor fails,
    and BadPatch if the loaded model is not the saved one. The model is restored in any case.
    """
    session = work.loaded.session
    prompts = compare_prompts(work.edits)
    before = complete_prompts(session, prompts)
    with TemporaryDirectory() as scratch, untouched(session.model):
        folder, started = Path(scratch), perf_counter()
        with work.edited.active(work.edits):
            seconds = perf_counter() - started
            saved = save_adaptor(work.edited, work.loaded.base, folder)
        with opened_edit(folder, saved, session, work.edited.editor):
            after = complete_prompts(session, prompts)
        write(folder)
    return EditResult(saved=saved, comparisons=compare(work.edits, before, after), seconds=seconds)


def save_adaptor(edited: EditedModel, base: PatchBase, folder: Path) -> SavedEdit:
    """Save the active edits of an adaptor in ``folder``. Raises EditFailed if they changed nothing."""
    model, name, method = edited.session.model, edited.editor.spec.name, edited.applied
    model.state()  # rereads the weights for the digest
    if model.digest == base.model.digest:
        raise EditFailed(f"{name} changed nothing", hint=f"check its options with ke show {name}")
    if not isinstance(method, SupportsSave):
        raise EditFailed(f"the edited model of {name} has no save(path)", hint=f"use {name} with ke eval or ke serve")
    saved = SavedEdit(
        ke=version("ke-core"),
        editor=edited.editor.component,
        model=base.model,
        folder=base.folder,
        edits=edited.edits,
        edited=model.digest,
        details=_details(edited),
    )
    write_saved_edit(folder, saved, method)
    return saved
