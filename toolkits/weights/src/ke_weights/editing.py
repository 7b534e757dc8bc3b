"""Save an edit: ``ke edit``.

::

    work = prepare_edit(request, catalog, progress)    # resolves, loads the model, checks the edits
    made = make_edit(work, write)                      # queries, edits, queries again, calls `write`

The patch is what a weight editor adds to the weights while its context is active. The patch is then applied to the
base, queried, and passed to ``write``, so the answers are those of the written patch. ``adaptor_edits`` does the same
for adaptors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from ke_core.app import (
    Catalog,
    EditApplier,
    ModelChoice,
    Options,
    ResolvedComponent,
    directory_entries,
    open_session,
    reject_unused,
    resolve_component,
    untouched,
)
from ke_core.plugin import (
    BadConfig,
    Details,
    Edited,
    EditFailed,
    Editor,
    EditorSpec,
    NeedsWeights,
    Progress,
    Session,
    SourcedEdit,
    UnsupportedEdit,
    find_model,
)
from ke_weights.completions import PromptComparison, compare, compare_prompts, complete_prompts
from ke_weights.patches.info import History, PatchBase
from ke_weights.saved_edits import SavedEdit

if TYPE_CHECKING:
    from ke_plugin_hf.model import HFModel
    from ke_weights.patches import StoredPatch
    from ke_weights.patches.checkpoint import LoadedHistory

NAMED = re.compile(r"edit '([^']+)'")
"""Finds another edit's id in the reason why an edit cannot be made."""


@frozen(kw_only=True)
class EditRequest:
    """Arguments of ``ke edit``."""

    editor: str
    model: ModelChoice
    edits: tuple[SourcedEdit, ...]
    options: Options = field(factory=dict)
    seed: int = 0


@frozen(kw_only=True)
class LoadedModel:
    """A model to edit. ``past``: history of the edited checkpoint that it was loaded from, if it is one."""

    session: Session[Any]
    base: PatchBase
    folder: Path | None
    past: LoadedHistory | None

    @property
    def model(self) -> HFModel:
        """The session's model."""
        found: HFModel = self.session.model
        return found

    @property
    def history(self) -> History | None:
        """The history from the base of an edited checkpoint to this model."""
        return self.past.history if self.past else None


@frozen(kw_only=True)
class EditJob:
    """Everything that the edit needs, checked."""

    loaded: LoadedModel
    chosen: ResolvedComponent[Any]
    editor: Editor
    edits: tuple[SourcedEdit, ...]

    @property
    def adaptor(self) -> bool:
        """Whether the editor is an adaptor, whose state is saved instead of a patch."""
        assert isinstance(self.chosen.spec, EditorSpec)
        return self.chosen.spec.adaptor


@frozen(kw_only=True)
class EditResult:
    """``patch``: of a weight editor; ``saved``: of an adaptor. ``seconds``: without queries and files."""

    comparisons: tuple[PromptComparison, ...]
    seconds: float
    patch: StoredPatch | None = None
    saved: SavedEdit | None = None


def open_model_for_edits(choice: ModelChoice, catalog: Catalog, progress: Progress, *, seed: int = 0) -> LoadedModel:
    """Load a model with weights in this process. Raises NeedsWeights, and BadPatch for a damaged checkpoint."""
    _spec, request = find_model(choice.reference, choice.how, catalog)
    model = choice.load(catalog, progress)
    if not hasattr(model, "recording"):
        raise NeedsWeights(
            f"the weights of {model.id} are not in this process", hint="use a model that is loaded locally (hf:...)"
        )
    from ke_weights.patches.checkpoint import check_unchanged, read_history  # noqa: PLC0415  imports torch
    from ke_weights.patches.identity import size_of, weights_digest  # noqa: PLC0415  as above

    opened: Any = model
    where = Path(request.id)
    folder = where if where.is_dir() else None
    past = read_history(folder) if folder else None
    if past is not None:
        check_unchanged(opened, past, where)
    base = PatchBase(
        model=choice.describe(catalog, model),
        weights=weights_digest(opened.module),
        size=size_of(opened.module),
        folder=folder is not None,
    )
    session = open_session(model, catalog=catalog, seed=seed, progress=progress, material={})
    return LoadedModel(session=session, base=base, folder=folder, past=past)


def prepare_edit(request: EditRequest, catalog: Catalog, progress: Progress) -> EditJob:
    """Resolve, load, and check the edits. Nothing is changed.

    Raises KEErrors: unknown names, an editor that changes no weights, edits that cannot be made (each with its reason).
    """
    chosen = resolve_component(catalog, "editor", request.editor, request.options)
    reject_unused(request.options, [chosen.spec])
    assert isinstance(chosen.spec, EditorSpec)
    _refuse_unsaveable(chosen.spec, catalog)
    editor: Editor = chosen.build()
    loaded = open_model_for_edits(request.model, catalog, progress, seed=request.seed)
    editor.check(loaded.session, ())  # raises for an unsupported model
    refused = chosen.spec.refused(editor, loaded.session, [one.edit for one in request.edits])
    if refused:
        of = {one.edit.id: one for one in request.edits}
        lines = tuple(
            f"{of[name].source}: {of[name].edit.statement!r}: {_placed(why, of)}" for name, why in refused.items()
        )
        many = "an edit" if len(refused) == 1 else f"{len(refused)} of {len(request.edits)} edits"
        raise UnsupportedEdit(
            f"{request.editor} cannot make {many}", details=lines, hint="fix or remove these edits; nothing was changed"
        )
    return EditJob(loaded=loaded, chosen=chosen, editor=editor, edits=request.edits)


def _refuse_unsaveable(spec: EditorSpec, catalog: Catalog) -> None:
    """Raise BadConfig for an editor whose edits cannot be saved, before a model is loaded."""
    if not spec.needs_weights:
        raise BadConfig(
            f"editor {spec.name} changes no weights, so there is nothing to save",
            hint=f"ke serve --editor {spec.name} keeps edits active; "
            f"weight editors: {', '.join(weight_editors(catalog)) or 'none installed'}",
        )
    if spec.adaptor and spec.load is None:
        raise BadConfig(
            f"editor {spec.name} is an adaptor that cannot be saved: its EditorSpec has no load",
            hint="use it with ke eval or ke serve",
        )


def _placed(why: str, of: Mapping[str, SourcedEdit]) -> str:
    """Replace the ids of other edits in ``why`` with their sources, because most ids are generated."""

    def place(found: re.Match[str]) -> str:
        return f"the edit of {of[found[1]].source}" if found[1] in of else found[0]

    return NAMED.sub(place, why)


def weight_editors(catalog: Catalog) -> list[str]:
    """Return the installed editors that change weights, in the order of the directory, then by name."""
    listed = [entry.name for entry in directory_entries("editor")]
    specs = (catalog.spec("editor", name) for name in catalog.names("editor"))
    found = [spec.name for spec in specs if isinstance(spec, EditorSpec) and spec.editor_kind == "weight editor"]
    return sorted(found, key=lambda name: (listed.index(name) if name in listed else len(listed), name))


def make_edit(work: EditJob, write: Callable[[StoredPatch, Mapping[str, Any]], None]) -> EditResult:
    """Query, edit, and call ``write`` with the patch and the base's own tensors while the model is edited.

    Raises EditFailed if the editor fails, changes nothing, or changes weights without reporting it. The model is
    restored in any case.
    """
    from ke_weights.patches import applied  # noqa: PLC0415  imports torch

    loaded = work.loaded
    prompts = compare_prompts(work.edits)
    before = complete_prompts(loaded.session, prompts)
    started = perf_counter()
    state = loaded.model.state()
    with untouched(loaded.model, state):
        patch = _edited(work, state)
        seconds = perf_counter() - started
        with applied(loaded.model, patch, loaded.history) as weights:
            loaded.model.state()  # rereads the weights, whose digest is the cache key of completions
            after = complete_prompts(loaded.session, prompts)
            patch = _with_result(patch, loaded.model)
            write(patch, weights.originals())
    return EditResult(patch=patch, comparisons=compare(work.edits, before, after), seconds=seconds)


def _edited(work: EditJob, state: Mapping[str, object]) -> StoredPatch:
    """Return the patch of what the editor adds while its context is active."""
    from ke_weights.patches.build import build_patch  # noqa: PLC0415  imports torch

    model, name = work.loaded.model, work.chosen.spec.name
    with model.recording() as changes, edits_made(work) as (_edited_model, details):
        deltas = changes.deltas()
        marks = model.state()
    reported = {f"parameter {parameter}" for parameter in deltas}
    unreported = [mark for mark in marks if marks[mark] != state.get(mark) and mark not in reported]
    if unreported:
        raise EditFailed(
            f"{name} changed {unreported[0]} without session.model.patch(), so it cannot be saved as a patch",
            hint=f"use {name} with ke eval or ke serve. An editor that changes the forward pass is an adaptor: it "
            "calls session.model.adapt() and sets adaptor=True in its EditorSpec (docs/adaptors.md)",
        )
    if not deltas:
        raise EditFailed(f"{name} changed no weight", hint=f"check its options with ke show {name}")
    return build_patch(
        model.module, deltas, base=work.loaded.base, editor=work.chosen.component, edits=work.edits, details=details
    )


@contextmanager
def edits_made(work: EditJob) -> Iterator[tuple[Edited, Details]]:
    """Yield the edited model and the editor's details. Edits are made one by one if the editor requires it."""
    session, edits = work.loaded.session, [one.edit for one in work.edits]
    assert isinstance(work.chosen.spec, EditorSpec)
    joint = not work.chosen.spec.one_at_a_time
    with EditApplier(session=session, editor=work.editor, joint=joint) as maker:
        details = maker.make(edits if joint else session.progress.track(edits, "edits"))
        assert maker.edited is not None
        yield maker.edited, details


def _with_result(patch: StoredPatch, model: HFModel) -> StoredPatch:
    from ke_weights.patches.identity import weights_digest  # noqa: PLC0415  imports torch

    return evolve(patch, info=evolve(patch.info, edited=weights_digest(model.module)))
