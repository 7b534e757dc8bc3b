"""Making edits, one batch on top of another, all given back at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any, Self

from attrs import define, evolve, field, frozen

from ke_core.interrupts import UninterruptibleContext
from ke_core.runner.run import ResolvedRun
from ke_core.runner.usage import Meter
from ke_core.spec.errors import UnsupportedChange, WeightsNotRestored
from ke_core.spec.facts import Edit
from ke_core.spec.protocols import Edited, Editor, LanguageModel, Session, SupportsSave
from ke_core.spec.records import Batch
from ke_core.spec.results import Details, ForwardCalls, Peak


@frozen(kw_only=True)
class AppliedEdits:
    """An edited model, what the editor wants on record about it, and what the last edits took."""

    edited: Edited
    details: Details
    seconds: float
    peak: Peak
    passes: ForwardCalls | None

    def on(self, batch: Batch) -> Batch:
        """The record of a batch, with what making it took."""
        return evolve(batch, seconds=self.seconds, memory=self.peak, passes=self.passes, details=self.details)


@define
class EditApplier(UninterruptibleContext["EditApplier"]):
    """Edits the session's model for as long as the context is open.

    An editor that takes one edit at a time makes them one after another. Batches, too, come on top of what is
    there: through ``Edited.change`` where the method can, else by another edit of the edited model. The last edited
    model answers. Weights are saved once, however many edits there are (``HFModel.chained``). ``opens``: whether the
    editor changes weights at all.
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
        if hasattr(model, "chained"):  # weights that lie elsewhere are not edited
            self._chain = self._stack.enter_context(model.chained())
        return self

    @classmethod
    def of(cls, run: ResolvedRun) -> Self:
        """With the editor of a run."""
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
        """Make ``edits``; what the editor wants on record. Raises EditFailed, and what was there before stays."""
        with self._all_or_none() as group:
            if self.joint:
                return group.make(list(edits))
            return {"edits": {edit.id: group.make([edit]) for edit in edits}}

    def add(self, edits: Sequence[Edit]) -> AppliedEdits:
        """``make``, with what that took."""
        before = self._passes()
        with Meter(self.session.model) as meter:
            started = perf_counter()
            details = self.make(edits)
            seconds = perf_counter() - started
        after = self._passes()
        if self.opens:
            self.session.model.state()  # reads the weights afresh: the key of everything that is computed from here on
        assert self.edited is not None
        return AppliedEdits(
            edited=self.edited,
            details=details,
            seconds=round(seconds, 3),
            peak=meter.peak,
            passes=None if before is None or after is None else after - before,
        )

    def settle(self) -> None:
        """Weights as they are need not be kept by every edit of a group: the chain keeps them once."""
        if self._chain is not None:
            self._chain.settle()

    def _passes(self) -> ForwardCalls | None:
        """How often the model was run so far; None of one that runs elsewhere."""
        count: Any = getattr(self.session.model, "passes", None)
        found: ForwardCalls | None = None if count is None else count()
        return found

    @contextmanager
    def _all_or_none(self) -> Iterator[_Group]:
        """Edits that belong together: if one of them fails, those made before it are taken back too."""
        group = _Group(applier=self, edited=self.edited)
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
class _Group:
    """Edits on their way: ``edited`` answers with those made so far; ``added`` were taken on by what was there before
    them, the others opened contexts on ``stack``.
    """

    applier: EditApplier
    edited: Edited | None
    stack: ExitStack = field(factory=ExitStack)
    added: list[str] = field(factory=list)
    contexts: int = 0

    def make(self, edits: Sequence[Edit]) -> Details:
        """Make these on top of the others; what the editor wants on record."""
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
    """Make ``edits`` alone for as long as the context is open."""
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
    """Raise WeightsNotRestored if ``model`` leaves the context other than it was, also after an exception.

    ``before`` is its state on the way in, where the caller knows it: reading all weights takes time.
    """
    found = model.state() if before is None else before
    try:
        yield
    finally:
        changed = _changed_names(found, model.state())
        if changed:
            more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            raise WeightsNotRestored(
                f"the editor left the model changed: {', '.join(changed[:NAMED])}{more}",
                hint="what was asked before is recorded; the method must undo what it does when its context ends",
            )


def _changed_names(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    names = (*before, *(name for name in after if name not in before))
    absent = object()
    return [name for name in names if before.get(name, absent) != after.get(name, absent)]
