"""Load and edit the model that is served."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ke_core.app import (
    Catalog,
    EditApplier,
    ModelChoice,
    Options,
    ResolvedComponent,
    open_session,
    refuse_edits,
    refuse_weightless,
    reject_unused,
    resolve_component,
)
from ke_core.plugin import (
    BadConfig,
    Edit,
    Edited,
    Editor,
    EditorSpec,
    KEError,
    Progress,
    RemoteModel,
    Session,
    find_model,
)
from ke_plugin_serve.active_edits import ActiveEdits, kept_edit
from ke_plugin_serve.state import StateFile, first_edits, held

TRIES, PUT_OFF = 2, 20.0
"""Attempts of a request to a remote model, and the total seconds of waiting between them."""


@frozen(kw_only=True)
class ServeRequest:
    """The options of ``ke serve``. ``edits`` is only read. ``state`` is the server's own file.

    ``adaptor``: a folder of ``ke edit --out``, whose editor, options and edits are used.
    """

    editor: str
    model: ModelChoice
    options: Options = field(factory=dict)
    edits: Path | None = None
    state: Path | None = None
    adaptor: Path | None = None
    seed: int = 0


@frozen(kw_only=True)
class ServedModel:
    """An edited model, its active edits, and the state file that changes are saved to, if there is one.

    ``notice``: a line for the user if the edits come from the state file. ``turns``: the model wraps a prompt as a chat
    turn. A chat endpoint (``openai:``) is instructed to continue a text. ``own_edits``: the editor reads ``own`` of a
    question, which names every edit.
    """

    session: Session[Any]
    spec: EditorSpec
    editor: Editor
    edited: Edited
    bank: ActiveEdits
    state: StateFile | None
    turns: bool
    notice: str = ""
    own_edits: bool = False

    def keep(self) -> None:
        """Save the active edits. Raises KEError."""
        if self.state is not None:
            self.state.write(self.bank)


@contextmanager
def opened(request: ServeRequest, catalog: Catalog, progress: Progress) -> Iterator[ServedModel]:
    """Load the model and apply the edits while the context is open.

    Raises KEErrors for unknown names, a file that is unreadable or in use by another server, a weight editor with a
    remote model, and edits that the editor cannot apply, each with its reason.
    """
    saved = read_adaptor(request.adaptor) if request.adaptor else None
    chosen = saved.editor_in(catalog) if saved else resolve_editor(request, catalog)
    spec = chosen.spec
    assert isinstance(spec, EditorSpec)
    if not spec.needs_model:
        raise BadConfig(
            f"editor {spec.name} answers without a model: there is nothing to serve",
            hint="choose an editor that uses the model: ke plugins lists all",
        )
    if gold := spec.oracle(chosen.config):
        raise BadConfig(
            f"editor {spec.name} is set to use gold material {gold[0]!r}, which no client brings with its question",
            hint=f"ke show {spec.name} lists its options",
        )
    path = state_path(request)
    with held(path, request.edits) if path else nullcontext() as state:
        bank, notice = first_edits(state, request.edits)
        if saved:
            bank = ActiveEdits.of(kept_edit(one) for one in saved.edits)
        editor: Editor = chosen.build()
        source_spec, how = find_model(request.model.reference, request.model.how, catalog)
        model = request.model.load(catalog, progress)
        refuse_weightless(spec, model)
        if isinstance(model, RemoteModel):
            model.limit_retries(attempts=TRIES, seconds=PUT_OFF)
        # no cache of completions: requests are private
        session = open_session(
            model, catalog=catalog, seed=request.seed, progress=progress, material={}, remember=False
        )
        edits = [one.edit for one in bank.edits.values()]
        editor.check(session, ())  # raises for a model that it cannot edit at all
        if saved and request.adaptor:
            from ke_weights.plugin import opened_edit  # noqa: PLC0415  optional, and imports torch

            opening = opened_edit(request.adaptor, saved, session, chosen)
        else:
            refuse_edits(spec, editor, session, edits, {})
            opening = edited_model(spec, editor, session, edits)
        with opening as edited:
            yield ServedModel(
                session=session,
                spec=spec,
                editor=editor,
                edited=edited,
                bank=bank,
                state=state,
                notice=notice,
                turns=how.chat and not source_spec.remote,
                own_edits=spec.given_own_edits(chosen.config),
            )


def resolve_editor(request: ServeRequest, catalog: Catalog) -> ResolvedComponent[Any]:
    """Return the editor of the command line with its defaults for serving."""
    spec = catalog.spec("editor", request.editor)
    assert isinstance(spec, EditorSpec)
    reject_unused(request.options, [spec])
    own = {**spec.served, **request.options.get(spec.prefix, {})}
    return resolve_component(catalog, "editor", request.editor, {spec.prefix: own})


@contextmanager
def edited_model(spec: EditorSpec, editor: Editor, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
    """Apply the edits together, or one after another if the editor supports only one at a time."""
    with EditApplier(session=session, editor=editor, joint=True, opens=spec.needs_weights) as applier:
        groups = [[edit] for edit in edits] if spec.one_at_a_time and edits else [list(edits)]
        for group in session.progress.track(groups, "edits"):
            applier.make(group)
        session.model.state()  # reads the weights afresh: the key of every answer from here on
        assert applier.edited is not None
        yield applier.edited


def state_path(request: ServeRequest) -> Path | None:
    """Return ``--state``, or a file next to ``--edits``. Raises BadConfig if that would overwrite the input.

    Links are resolved: two names of one file share one lock, and saving replaces the file, not the link.
    """
    edits = Path(os.path.realpath(request.edits)) if request.edits else None
    if request.state is None:
        return edits.with_name(f"{edits.name}.state.jsonl") if edits else None
    path = Path(os.path.realpath(request.state))
    if path == edits:
        raise BadConfig(
            f"--edits and --state are the same file: {path}",
            hint="omit --state: changes are then saved in a file next to --edits, which is only read",
        )
    if path.suffix.lower() == ".csv":
        raise BadConfig(f"the state file is JSON lines, not CSV: {path}", hint="name it --state FILE.jsonl")
    return path


if TYPE_CHECKING:
    import click

    from ke_core.app import ModelChoice
    from ke_weights.plugin import SavedEdit


def read_adaptor(folder: Path) -> SavedEdit:
    """Read a folder of ``ke edit --out``. Raises BadPatch, and KEError if ke-weights is not installed."""
    if find_spec("ke_weights") is None:
        raise KEError(
            f"--adaptor needs ke-weights, which is not installed: {folder}",
            hint="pip install 'ke-plugin-serve[adaptors]'",
        )
    from ke_weights.plugin import read_saved_edit  # noqa: PLC0415  optional, and imports torch

    return read_saved_edit(folder)


def adaptor_model(context: click.Context, given: Mapping[str, Any]) -> ModelChoice:
    """Return the model of the saved adaptor ``--adaptor``, as the command line changes it."""
    saved = read_adaptor(given["adaptor"])
    from ke_weights.plugin import recorded_model_choice  # noqa: PLC0415  as above

    return recorded_model_choice(context, given, saved.model, folder=saved.folder)
