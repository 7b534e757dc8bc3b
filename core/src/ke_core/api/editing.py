"""Edit a model while a context is open."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from attrs import Factory, define, field

from ke_core.api.models import Answers, Model, installed_catalog, likelihood, plugins, question
from ke_core.api.tables import Table
from ke_core.engine.passthrough import PassthroughModel
from ke_core.plugins.options import check_mapping, option_texts
from ke_core.runner.apply import EditApplier, check_untouched
from ke_core.runner.edit_files import Edits, edits_of
from ke_core.runner.prepare import refuse_edits, refuse_weightless
from ke_core.runner.resolve import ResolvedComponent, resolve_component
from ke_core.spec.errors import BadConfig, BadData, EditFailed, UnsupportedChange
from ke_core.spec.facts import SourcedEdit
from ke_core.spec.protocols import Edited, Editor, Session
from ke_core.spec.requests import Likelihood, Question

FLAT = 'such as options={"layers": [4, 5]}'


@define(eq=False)
class EditedModel(Answers):
    """A model that is edited inside a ``with`` block. The edits end with the block, unless ``keep`` was called."""

    model: Model
    editor: ResolvedComponent[Any] = field(repr=False)
    session: Session[Any] = field(repr=False)
    tracing: bool = False
    kept: bool = False
    before: Mapping[str, object] = field(factory=dict, repr=False)
    recorded: Any = field(default=None, repr=False)
    _batches: list[tuple[SourcedEdit, ...]] = field(factory=list, repr=False)
    _details: list[Mapping[str, Any]] = field(factory=list, repr=False)
    _applier: EditApplier | None = field(default=None, repr=False)
    _stack: ExitStack = field(factory=ExitStack, repr=False)
    _method: Editor = field(init=False, repr=False, default=Factory(lambda self: self.editor.built, takes_self=True))
    _trace: Any = field(default=None, repr=False)
    _process: int = field(factory=os.getpid, repr=False)
    _given: tuple[tuple[SourcedEdit, ...], object] = field(default=((), None), repr=False)
    _opened: AbstractContextManager[Edited] = field(init=False, repr=False)

    def __enter__(self) -> Self:
        self._opened = self.active(*self._given)
        self._opened.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._opened.__exit__(kind, error, trace)

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

    def check(self, batch: Sequence[SourcedEdit]) -> None:
        """Raise UnsupportedEdit for edits that the editor cannot make, and KEError for a model that it cannot edit."""
        self._method.check(self.session, ())
        self._refuse(batch)

    @contextmanager
    def active(self, batch: tuple[SourcedEdit, ...], inputs: object = None) -> Iterator[Edited]:
        """Apply ``batch`` while the context is open, and yield what answers requests.

        ``before`` is the state of the model without edits. Raises WeightsNotRestored if the editor left a change.
        """
        with self.model.reserved():
            self.before = self.model.model.state()
            self._use(inputs, batch)
            try:
                with self.model.progress.shown():
                    self._begin([batch])
                yield self._answering()
            finally:
                self._end(keep=self.kept)
                if not self.kept:
                    check_untouched(self.model.model, self.before)

    def add(
        self, prompt: str = "", *, subject: str = "", target: str = "", edits: Edits = (), inputs: object = None
    ) -> Sequence[SourcedEdit]:
        """Apply further edits to the edited model, and return them. Raises UnsupportedEdit and EditFailed.

        >>> (new,) = edited.add("The capital of {} is", subject="Chile", target="Valparaiso")
        >>> edited.remove(new.edit.id)
        """
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
        rests = [tuple(one for one in batch if one.edit.id not in ids) for batch in self._batches]
        left = [rest for rest in rests if rest]
        try:
            self._answering().change(remove=ids)
        except UnsupportedChange:
            with self.model.progress.shown():
                self._end()
                self._begin(left)
        else:
            self._batches = left
            self._details = [its for its, rest in zip(self._details, rests, strict=True) if rest]

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
                f"there are no edited weights to keep: {spec.name} is no weight editor ({spec.editor_kind})",
                hint="keep the context open while you use the edited model",
            )
        self.kept = True

    @property
    def applied(self) -> Edited:
        """The editor's own edited model, for plugins that save it. Raises EditFailed after the context."""
        return self._answering()

    def unedited(self) -> AbstractContextManager[None]:
        """Return a context in which the model has its original weights and no adaptor."""
        model: Any = self.model.model
        return model.unedited() if self.editor.spec.needs_weights else nullcontext()

    def report(self) -> Table:
        """Return each edit with the completion and the probabilities before and after it.

        >>> edited.report().columns
        ['prompt', 'target', 'answer before', 'log p(target) before', 'answer after', 'log p(target) after']
        """
        after = self._rows(self)
        with self.unedited():
            before = self._rows(self.model)
        return Table.of(
            {"prompt": one.prompt, "target": one.target}
            | {f"{name} before": value for name, value in old.items()}
            | {f"{name} after": value for name, value in new.items()}
            for one, old, new in zip(self.edits, before, after, strict=True)
        )

    def save_patch(self, path: str | Path, *, force: bool = False) -> Path:
        """Save the weight updates as a patch, which ``ke patch`` and ``ke verify`` read. ``force`` replaces a file.

        >>> path = edited.save_patch("peru.safetensors")
        """
        return self._save("patch", Path(path), force)

    def save_adapter(self, folder: str | Path, *, force: bool = False) -> Path:
        """Save the weight updates as a LoRA adapter, which peft and vLLM load.

        >>> folder = edited.save_adapter("peru-adapter")
        """
        return self._save("adapter", Path(folder), force)

    def save_pretrained(self, folder: str | Path, *, force: bool = False) -> Path:
        """Save the edited model and its tokenizer as a checkpoint, which transformers loads.

        For an adaptor, save its state, which ``ke verify`` and ``ke serve --adaptor`` load.
        """
        return self._save("checkpoint", Path(folder), force)

    def _save(self, what: str, path: Path, force: bool) -> Path:  # noqa: FBT001  one caller for each kind
        if not plugins().manager.hook.ke_save_edit(edited=self, what=what, path=path, force=force):
            raise EditFailed(f"no installed plugin saves a {what}", hint="pip install ke-weights")
        return path

    def _rows(self, model: Answers) -> list[dict[str, Any]]:
        """Return the answer to each edit's prompt, and the log-probabilities of its objects, in one call."""
        requests: list[Question | Likelihood] = [question(one.prompt) for one in self.edits]
        if self.editor.spec.needs_weights:
            requests += [likelihood(one.prompt, [one.target, *([one.old] if one.old else [])]) for one in self.edits]
        replies = model.replies(requests)
        answers, scores = replies[: len(self.edits)], replies[len(self.edits) :]
        rows = [{"answer": answer.text.strip()} for answer in answers]
        values = [reply.logprobs for reply in scores] or [(None, None)] * len(rows)
        names = ("log p(target)", "log p(old)")
        return [row | dict(zip(names, of, strict=False)) for row, of in zip(rows, values, strict=True)]

    def _answering(self) -> Edited:
        if os.getpid() != self._process:
            raise EditFailed(
                f"this edited model belongs to process {self._process}", hint="load and edit a model in this process"
            )
        if self._applier is None:
            raise EditFailed("the edit is not active", hint="use it inside the block of: with ke.edit(...) as edited:")
        return self._applier.edited or PassthroughModel(self.session)

    def _add(self, batch: tuple[SourcedEdit, ...]) -> None:
        self._refuse(batch)
        assert self._applier is not None
        self._details.append(self._applier.add([one.edit for one in batch]).details)
        self._batches.append(batch)

    def _refuse(self, batch: Sequence[SourcedEdit]) -> None:
        facts, sources = [one.edit for one in batch], {one.edit.id: one.source for one in batch}
        refuse_edits(self.editor.spec, self._method, self.session, facts, sources)

    def _use(self, inputs: object, batch: tuple[SourcedEdit, ...]) -> None:
        if use := getattr(self._method, "use", None):  # of locate-and-edit editors, as ``traced``
            use(inputs, [one.edit for one in batch])
        elif inputs is not None or self.tracing:
            raise BadConfig(f"{self.editor.spec.name} uses no inputs and records no trace", hint="use memit, or rome")

    def _begin(self, batches: Sequence[tuple[SourcedEdit, ...]]) -> None:
        spec = self.editor.spec
        model: Any = self.model.model
        self.check(())
        if self.tracing:
            self._trace = getattr(self._method, "traced")()  # noqa: B009  not in the protocol
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
) -> EditedModel:
    """Edit one fact (``prompt``, ``subject``, ``target``) or several ``edits`` while the context is open.

    ``prompt`` has ``{}`` or the subject itself in the place of the subject. ``edits``: a file, a pandas data frame, or
    dicts or dataclasses with the fields of an edit file. ``options`` are those of the editor. ``inputs``: intermediate
    results to use instead of computing them, as a ``ke_weights.EditInputs``. ``trace``: record intermediate results in
    ``edited.trace``. The weights are restored bit for bit at the end, unless ``keep`` was called. Raises
    UnsupportedEdit with the editor's reason, and EditFailed if the model is being edited already.

    >>> prompt, quick = "The capital of {} is", {"tokens": 5000, "steps": 10}
    >>> with ke.edit(model, prompt, subject="Peru", target="Cusco", editor="rome", options=quick) as edited:
    ...     edited.generate("The capital of Peru is")
    'Cusco.'
    """
    Model.check(model)
    batch = edits_of(prompt, subject, target, edits)
    spec = installed_catalog().spec("editor", editor)
    given = {name.removeprefix(f"{spec.prefix}."): value for name, value in check_mapping(options or {}, FLAT).items()}
    for name, value in given.items():
        if isinstance(value, Mapping):
            raise BadConfig(f"options[{name!r}] is {value!r}: the options of {editor} are not nested", hint=FLAT)
    chosen: Any = resolve_component(installed_catalog(), "editor", editor, {spec.prefix: option_texts(given)})
    refuse_weightless(chosen.spec, model.model)
    session = model.session(seed=seed)
    return EditedModel(model=model, editor=chosen, session=session, tracing=trace, given=(batch, inputs))
