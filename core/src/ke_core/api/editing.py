"""Edit a model while a context is open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field

from ke_core.api.models import Answers, Model, installed_catalog, plugins
from ke_core.api.tables import Table
from ke_core.engine.passthrough import PassthroughModel
from ke_core.plugins.options import option_text
from ke_core.runner.apply import EditApplier, check_untouched
from ke_core.runner.edit_files import edit_from, read_edits
from ke_core.runner.prepare import refuse_weightless
from ke_core.runner.resolve import ResolvedComponent, resolve_component
from ke_core.spec.codec import to_json
from ke_core.spec.errors import BadConfig, BadData, EditFailed, UnsupportedChange, UnsupportedEdit
from ke_core.spec.facts import SourcedEdit
from ke_core.spec.protocols import Edited, Editor, Session, SupportsTrace
from ke_core.spec.specs import EditorSpec
from ke_core.storage.json_reading import SourceLine

Edits = str | Path | Iterable[Any]
"""A file, a pandas data frame, or mappings, dataclasses or attrs instances with the fields of an edit file."""


def edits_of(prompt: str = "", subject: str = "", target: str = "", edits: Edits = ()) -> tuple[SourcedEdit, ...]:
    """Return the edits in any accepted form. Raises BadData that names the edit and the field."""
    if isinstance(edits, str | Path):
        found: list[SourcedEdit] = list(read_edits(Path(edits)))
    else:
        rows: Iterable[Any] = edits.to_dict("records") if hasattr(edits, "to_dict") else edits
        found = [_sourced(row, number) for number, row in enumerate(rows, start=1)]
    if prompt:
        raw = {"prompt": prompt, "subject": subject, "target_new": target}
        found.append(edit_from(raw, SourceLine(file="ke.edit")))
    if not found:
        raise BadData("no edit is given", hint="give prompt, subject and target, or edits=[...]")
    return tuple(found)


def _sourced(row: Any, number: int) -> SourcedEdit:
    if isinstance(row, SourcedEdit):
        return row
    if attrs.has(type(row)) or is_dataclass(row):
        row = to_json(row)
    if not isinstance(row, Mapping):
        raise BadData(f"edit {number} of edits is a {type(row).__name__}", hint="use dicts or dataclasses")
    filled = {name: value for name, value in row.items() if value == value}  # noqa: PLR0124  pandas' NaN: an empty cell
    return edit_from(filled, SourceLine(file="edits", line=number))


@define(eq=False)
class EditedModel(Answers):
    """A model whose edits are active, created by ``ke.edit``. Ends with the context, unless ``keep`` was called."""

    model: Model
    editor: ResolvedComponent[Any] = field(repr=False)
    session: Session[Any] = field(repr=False)
    tracing: bool = False
    kept: bool = False
    recorded: Any = field(default=None, repr=False)
    _batches: list[tuple[SourcedEdit, ...]] = field(factory=list, repr=False)
    _details: list[Mapping[str, Any]] = field(factory=list, repr=False)
    _applier: EditApplier | None = field(default=None, repr=False)
    _stack: ExitStack = field(factory=ExitStack, repr=False)
    _method: Editor = field(init=False, repr=False)
    _trace: Any = field(default=None, repr=False)
    _process: int = field(factory=os.getpid, repr=False)

    @property
    def edits(self) -> tuple[SourcedEdit, ...]:
        """The active edits."""
        return tuple(one for batch in self._batches for one in batch)

    @property
    def details(self) -> tuple[Mapping[str, Any], ...]:
        """What the editor recorded about each batch of edits: norms, contexts, losses. JSON values."""
        return tuple(self._details)

    @property
    def trace(self) -> Any:
        """What the editor recorded with ``trace=True``: a ``ke_weights.EditTrace``. Raises EditFailed without it."""
        if self._trace is None:
            raise EditFailed("no trace was recorded", hint="use ke.edit(..., trace=True)")
        return self._trace

    @contextmanager
    def active(self, batch: tuple[SourcedEdit, ...], inputs: object = None) -> Iterator[None]:
        """Apply ``batch`` while the context is open. Raises WeightsNotRestored if the editor left a change."""
        with self.model.reserved():
            before = self.model.model.state()
            self._method = self.editor.build()
            self._use(inputs, batch)
            try:
                with self.model.progress.shown():
                    self._begin([batch])
                yield
            finally:
                self._end(keep=self.kept)
                if not self.kept:
                    check_untouched(self.model.model, before)

    def add(
        self, prompt: str = "", *, subject: str = "", target: str = "", edits: Edits = (), inputs: object = None
    ) -> Sequence[SourcedEdit]:
        """Apply further edits to the edited model, and return them. Raises UnsupportedEdit and EditFailed."""
        batch = edits_of(prompt, subject, target, edits)
        self._use(inputs, batch)
        with self.model.progress.shown():
            self._add(batch)
        return batch

    def remove(self, *ids: str) -> None:
        """Remove edits by id. A weight editor restores the weights and applies the other edits again.

        ``edited.edits`` lists the active edits with their ids (``edited.edits[0].edit.id``). Raises BadData for an
        unknown id.
        """
        unknown = set(ids) - {one.edit.id for one in self.edits}
        if unknown:
            raise BadData(f"no active edit has the id {min(unknown)!r}", hint="edited.edits lists the active edits")
        left = [rest for batch in self._batches if (rest := tuple(one for one in batch if one.edit.id not in ids))]
        try:
            self._answering().change(remove=ids)
        except UnsupportedChange:
            with self.model.progress.shown():
                self._end()
                self._begin(left)
        else:
            self._batches = left

    def undo(self) -> None:
        """Remove the edits of the last ``add``, or those of ``ke.edit``. Raises EditFailed without any."""
        if not self._batches:
            raise EditFailed("there is no edit to undo")
        self.remove(*(one.edit.id for one in self._batches[-1]))

    def keep(self) -> None:
        """Keep the edited weights after the context ends. Raises UnsupportedChange for other kinds of editors."""
        spec = self.editor.spec
        if spec.editor_kind != "weight editor":
            raise UnsupportedChange(
                f"{spec.name} is a {spec.editor_kind}: there are no edited weights to keep",
                hint="keep the context open while you use the edited model",
            )
        self.kept = True

    def unedited(self) -> AbstractContextManager[None]:
        """Return a context in which the model has its original weights and no adaptor."""
        model: Any = self.model.model
        return model.unedited() if self.editor.spec.needs_weights else nullcontext()

    def report(self) -> Table:
        """Return each edit with the completion and the probabilities before and after it."""
        after = [self._row(self, one) for one in self.edits]
        with self.unedited():
            before = [self._row(self.model, one) for one in self.edits]
        return Table.of(
            {"prompt": one.prompt, "target": one.target}
            | {f"{name} before": value for name, value in old.items()}
            | {f"{name} after": value for name, value in new.items()}
            for one, old, new in zip(self.edits, before, after, strict=True)
        )

    def save_patch(self, path: str | Path, *, force: bool = False) -> Path:
        """Save the weight updates as a patch, which ``ke patch`` and ``ke verify`` read. ``force`` replaces a file."""
        return self._save("patch", Path(path), force)

    def save_adapter(self, folder: str | Path, *, force: bool = False) -> Path:
        """Save the weight updates as a LoRA adapter, which peft and vLLM load."""
        return self._save("adapter", Path(folder), force)

    def save_pretrained(self, folder: str | Path, *, force: bool = False) -> Path:
        """Save the edited model and its tokenizer as a checkpoint, which transformers loads."""
        return self._save("checkpoint", Path(folder), force)

    def _save(self, what: str, path: Path, force: bool) -> Path:  # noqa: FBT001  one caller for each kind
        if not plugins().manager.hook.ke_save_edit(edited=self, what=what, path=path, force=force):
            raise EditFailed(f"no installed plugin saves a {what}", hint="pip install ke-weights")
        return path

    def _row(self, model: Answers, one: SourcedEdit) -> dict[str, Any]:
        found: dict[str, Any] = {"answer": model.generate(one.prompt)}
        names = [one.target, *([one.old] if one.old else [])]
        values = model.logprobs(one.prompt, names) if self.editor.spec.needs_weights else [None, None]
        return found | dict(zip(("log p(target)", "log p(old)"), values, strict=False))

    def _answering(self) -> Edited:
        if os.getpid() != self._process:
            raise EditFailed(
                f"this edited model belongs to process {self._process}", hint="load and edit a model in this process"
            )
        if self._applier is None:
            raise EditFailed("this edit has ended: the model is restored", hint="use it inside its with block")
        return self._applier.edited or PassthroughModel(self.session)

    def _add(self, batch: tuple[SourcedEdit, ...]) -> None:
        facts = [one.edit for one in batch]
        refused = self.editor.spec.refused(self._method, self.session, facts)
        if refused:
            reasons = tuple(f"{fact.statement!r}: {refused[fact.id]}" for fact in facts if fact.id in refused)
            name = self.editor.spec.name
            raise UnsupportedEdit(f"{name} cannot make {len(refused)} of {len(facts)} edits", details=reasons)
        assert self._applier is not None
        self._details.append(self._applier.add(facts).details)
        self._batches.append(batch)

    def _use(self, inputs: object, batch: tuple[SourcedEdit, ...]) -> None:
        if isinstance(self._method, SupportsTrace):
            self._method.use(inputs, [one.edit for one in batch])
        elif inputs is not None or self.tracing:
            raise BadConfig(f"{self.editor.spec.name} uses no inputs and records no trace", hint="use memit, or rome")

    def _begin(self, batches: Sequence[tuple[SourcedEdit, ...]]) -> None:
        spec = self.editor.spec
        model: Any = self.model.model
        self._method.check(self.session, ())
        if self.tracing and isinstance(self._method, SupportsTrace):
            self._trace = self._method.traced()
        if spec.editor_kind == "weight editor":
            self.recorded = self._stack.enter_context(model.recording())
        joint, opens = not spec.one_at_a_time, spec.needs_weights
        applier = EditApplier(session=self.session, editor=self._method, joint=joint, opens=opens)
        self._applier = self._stack.enter_context(applier)
        self._batches, self._details = [], []
        for batch in batches:
            self._add(batch)

    def _end(self, *, keep: bool = False) -> None:
        if keep and self._applier is not None:
            self._applier.keep()
        self._applier = None
        self._stack.close()


@contextmanager
def edit(
    model: Model,
    prompt: str = "",
    *,
    subject: str = "",
    target: str = "",
    edits: Edits = (),
    editor: str = "memit",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    inputs: object = None,
    trace: bool = False,
) -> Iterator[EditedModel]:
    """Edit one fact (``prompt``, ``subject``, ``target``) or several ``edits`` while the context is open.

    ``prompt`` has ``{}`` or the subject itself in the place of the subject. ``edits``: a file, a pandas data frame, or
    dicts or dataclasses with the fields of an edit file. ``options`` are those of the editor. ``inputs``: intermediate
    results to use instead of computing them, as a ``ke_weights.EditInputs``. ``trace``: record intermediate results in
    ``edited.trace``. The weights are restored bit for bit at the end, unless ``keep`` was called. Raises
    UnsupportedEdit with the editor's reason, and EditFailed if the model is being edited already.
    """
    batch = edits_of(prompt, subject, target, edits)
    spec = installed_catalog().spec("editor", editor)
    chosen: Any = resolve_component(installed_catalog(), "editor", editor, {spec.prefix: option_texts(options or {})})
    assert isinstance(chosen.spec, EditorSpec)
    refuse_weightless(chosen.spec, model.model)
    edited = EditedModel(model=model, editor=chosen, session=model.session(seed=seed), tracing=trace)
    with edited.active(batch, inputs):
        yield edited


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return option values as the command line has them."""
    return {name: option_text(value, name) for name, value in options.items()}
