"""Apply edits, one batch after another, and restore the model at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from attrs import define, evolve, field, frozen

from ke_core.interrupts import UninterruptibleContext
from ke_core.runner.run import ResolvedRun
from ke_core.runner.usage import measured_phase
from ke_core.spec.errors import UnsupportedChange, WeightsNotRestored
from ke_core.spec.facts import Edit
from ke_core.spec.protocols import Edited, Editor, LanguageModel, Session, SupportsSave
from ke_core.spec.records import Batch
from ke_core.spec.results import Details, ForwardCalls, Peak

EDITING = "editing"
"""Label of the progress while edits are applied."""


@frozen(kw_only=True)
class AppliedEdits:
    """An edited model, the details that its editor records, and the cost of the last edits."""

    edited: Edited
    details: Details
    seconds: float
    peak: Peak
    passes: ForwardCalls | None

    def on(self, batch: Batch) -> Batch:
        """Return the record of a batch with the cost of its edits."""
        return evolve(batch, seconds=self.seconds, memory=self.peak, passes=self.passes, details=self.details)


@define
class EditApplier(UninterruptibleContext["EditApplier"]):
    """Edit the session's model while the context is open.

    If the editor takes one edit at a time, edits are applied one after another. A further batch is added to the edited
    model: through ``Edited.change`` if the method supports that, else by editing the edited model. The last edited
    model answers. Weights are saved once, however many edits there are (``HFModel.chained``). ``opens``: the editor
    changes weights.
    """

    session: Session[Any]
    editor: Editor
    joint: bool
    opens: bool = True
    edited: Edited | None = field(default=None, init=False)
    _contexts: int = field(default=0, init=False)
    _stack: ExitStack = field(factory=ExitStack, init=False)
    _chain: Any = field(default=None, init=False)

    def _begin(self) -> EditApplier:
        model: Any = self.session.model
        if hasattr(model, "chained"):  # a remote model has no weights to edit
            self._chain = self._stack.enter_context(model.chained())
        return self

    @classmethod
    def of(cls, run: ResolvedRun) -> Self:
        """Create it for the editor of a run."""
        return cls(session=run.session, editor=run.editor, joint=run.spec.joint, opens=run.editor_spec.needs_weights)

    def restore(self, edited: Edited, opened: ExitStack) -> None:
        """Continue with an edited model that was saved, and close what was ``opened`` for it at the end."""
        self._stack.push(opened.pop_all())
        self.edited = edited
        self._contexts += 1

    @property
    def saveable(self) -> SupportsSave | None:
        """The edited model, if it can be saved and holds every edit made so far."""
        return self.edited if self._contexts == 1 and isinstance(self.edited, SupportsSave) else None

    def make(self, edits: Iterable[Edit]) -> Details:
        """Apply ``edits`` and return the editor's details. Raises EditFailed; earlier edits stay applied."""
        with self._all_or_none() as group:
            if self.joint:
                return group.make(list(edits))
            return {"edits": {edit.id: group.make([edit]) for edit in edits}}

    def add(self, edits: Sequence[Edit]) -> AppliedEdits:
        """Apply ``edits`` and measure the cost."""
        before = self._passes()
        with measured_phase(EDITING, self.session.model, self.session.progress) as phase:
            details = self.make(edits)
        after = self._passes()
        if self.opens:
            self.session.model.state()  # update the digest: it is part of the key of every completion
        assert self.edited is not None
        return AppliedEdits(
            edited=self.edited,
            details=details,
            seconds=round(phase.seconds, 3),
            peak=phase.rise,
            passes=None if before is None or after is None else after - before,
        )

    def settle(self) -> None:
        """Save the weights once for all edits of a group, not once for each edit."""
        if self._chain is not None:
            self._chain.settle()

    def keep(self) -> None:
        """Leave the edited weights in the model when the context ends."""
        if self._chain is not None:
            self._chain.retain()

    def _passes(self) -> ForwardCalls | None:
        """Return the number of forward calls so far. None for a remote model."""
        count: Any = getattr(self.session.model, "passes", None)
        found: ForwardCalls | None = None if count is None else count()
        return found

    @contextmanager
    def _all_or_none(self) -> Iterator[_EditGroup]:
        """Group edits: if one of them fails, those applied before it are undone."""
        group = _EditGroup(applier=self, edited=self.edited)
        try:
            with group.stack:
                yield group
                self._stack.push(group.stack.pop_all())
        except BaseException:
            if self.edited is not None and group.added:
                self.edited.change(remove=group.added)
            if self._chain is not None:
                self._chain.undo()
            raise
        if self._chain is not None:
            self._chain.keep()
        self.edited = group.edited
        self._contexts += group.contexts

    def _end(self, error: BaseException | None) -> bool | None:
        return self._stack.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)


@define
class _EditGroup:
    """The edits of a group. ``edited`` answers with those applied so far.

    ``added`` are the edits that were added to the earlier edited model. The others opened contexts on ``stack``.
    """

    applier: EditApplier
    edited: Edited | None
    stack: ExitStack = field(factory=ExitStack)
    added: list[str] = field(factory=list)
    contexts: int = 0

    def make(self, edits: Sequence[Edit]) -> Details:
        """Apply further edits and return the editor's details."""
        applier = self.applier
        if self.edited is None or not _changed(self.edited, edits):
            self.edited = self.stack.enter_context(applier.editor.edit(applier.session, edits))
            self.contexts += 1
        elif self.edited is applier.edited:
            self.added += [edit.id for edit in edits]
        applier.settle()
        return self.edited.details


@contextmanager
def applied_edits(run: ResolvedRun, edits: Sequence[Edit]) -> Iterator[AppliedEdits]:
    """Apply only ``edits`` while the context is open."""
    with EditApplier.of(run) as applier:
        yield applier.add(edits)


def _changed(edited: Edited, edits: Sequence[Edit]) -> bool:
    try:
        edited.change(add=edits)
    except UnsupportedChange:
        return False
    return True


NAMED = 5


@contextmanager
def untouched(model: LanguageModel, before: Mapping[str, object] | None = None) -> Iterator[None]:
    """Raise WeightsNotRestored if the state of ``model`` changed in the context, also after an exception.

    ``before``: the state at the start, if the caller knows it. Reading all weights takes time.
    """
    found = model.state() if before is None else before
    try:
        yield
    finally:
        check_untouched(model, found)


def check_untouched(model: LanguageModel, before: Mapping[str, object]) -> None:
    """Raise WeightsNotRestored if the state of ``model`` differs from ``before``."""
    after = model.state()
    absent = object()
    changed = [name for name in {**before, **after} if before.get(name, absent) != after.get(name, absent)]
    if changed:
        more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
        raise WeightsNotRestored(
            f"the editor left the model changed: {', '.join(changed[:NAMED])}{more}",
            hint="an editor changes weights only inside `with session.model.patch()`, which undoes them",
        )
