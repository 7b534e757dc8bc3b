"""The asking of a run: the unedited model first, then group by group, edited and given back.

::

    ask the unedited model everything that depends on it alone
    for each group of cases:
        with untouched(model), editor.edit(session, edits of the group) as edited:
            record edited.answer(questions)

Every chunk of answers is on the disk before the next is asked. What is on record is not asked again, so a
run that was killed goes on where it stopped: a group that is not finished is edited again and asked the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter

from attrs import define, field, frozen

from ke_core.data.facts import Edit, distinct
from ke_core.data.queries import Case
from ke_core.data.records import Batch
from ke_core.data.results import Details, Failure
from ke_core.engine.direct import Direct
from ke_core.errors import BadConfig, EditFailed, NeedsWeights, PluginBroken
from ke_core.protocols import Edited
from ke_core.results.folder import RunFolder
from ke_core.run.asks import Asker, Unit
from ke_core.run.guard import untouched
from ke_core.run.job import Finished, Job
from ke_core.run.plan import Group, groups
from ke_core.run.recorder import Recorder

BASE = "base"
"""The batch of what the unedited model was asked."""
CHUNK = 256
"""Questions that are answered together, at least (whole cases): enough to batch, few enough to lose."""


def evaluate(job: Job, folder: RunFolder) -> Finished:
    """Ask what is not yet on record. Raises KEErrors; whatever happens, the model is given back first."""
    started = perf_counter()
    refuse(job)
    to_do = planned(job)
    with folder.writing() as writer:
        recorder = Recorder(writer)
        recorder.recall(folder.read())
        total = sum(len(group.cases) for group in to_do)
        loop = Loop(job=job, recorder=recorder, before=job.session.model.state(), total=total)
        if job.editor_spec.needs_model:
            loop.ask_unedited(to_do)
        job.session.progress.advance("edited model", 0, total)
        for group in to_do:
            loop.ask_edited(group)
    skipped = sum(len(batch.skipped) for batch in recorder.batches.values())
    return Finished(failures=recorder.failures, skipped=skipped, seconds=perf_counter() - started)


def planned(job: Job) -> list[Group]:
    """The groups of the run. Raises BadConfig where the plan does not fit the cases."""
    return groups(job.cases, job.spec.plan, job.spec.seed, job.dataset.split)


def refuse(job: Job) -> None:
    """Raise for what can be known to go wrong before anything is asked."""
    name = job.spec.editor.name
    if job.editor_spec.needs_weights and not hasattr(job.session.model, "patch"):
        raise NeedsWeights(
            f"{name} changes weights, and {job.session.model.id} has none here",
            hint="choose a model that is loaded locally (hf:...), or an editor that keeps its edits in a memory",
        )
    if job.hides and not job.editor_spec.masks:
        raise BadConfig(
            f"{job.spec.dataset.component.name} hides edits from some cases, and {name} cannot hide any",
            hint="choose an editor that can, or switch the dataset's masking off",
        )


@frozen(kw_only=True)
class Feasible:
    """What of a group can be run: the edits to make, those refused, the cases left out, each with its reason."""

    edits: tuple[Edit, ...]
    refused: Mapping[str, str]
    skipped: Mapping[str, str]


@define
class Loop:
    """The steps of one run. ``before``: the state of the unedited model. ``done``: cases behind us, by label."""

    job: Job
    recorder: Recorder
    before: Mapping[str, object]
    total: int
    done: Counter[str] = field(factory=Counter)

    def ask_unedited(self, to_do: Sequence[Group]) -> None:
        """Everything that depends on the unedited model alone, before the first edit."""
        cases = [case for group in to_do for case in group.cases]
        for units in self._chunks(BASE, cases, self._asker.before, "unedited model"):
            self._ask(BASE, Direct(self.job.session), units)

    def ask_edited(self, group: Group) -> None:
        """Make the group's edits, ask its cases, give the model back; an edit that fails is recorded as such."""
        known = self.recorder.batches.get(group.id)
        if known is not None and not self._open(group, known.skipped, {}):
            self._advance("edited model", len(group.cases))
            return
        feasible = self._feasible(group)
        if not feasible.edits:
            self._record(group, feasible, 0.0, {})
            self._advance("edited model", len(group.cases))
            return
        bank = {edit.id: edit for edit in feasible.edits}
        cases = [case for case in group.cases if case.id not in feasible.skipped]
        started = perf_counter()
        try:
            with untouched(self.job.session.model, self.before), editing(self.job, feasible.edits) as made:
                self._record(group, feasible, made.seconds, made.details)
                for units in self._chunks(group.id, cases, partial(self._after, group, bank), "edited model"):
                    self._ask(group.id, made.edited, units)
        except EditFailed as error:
            failure = Failure(error=type(error).__name__, message=str(error))
            self._record(group, feasible, perf_counter() - started, {})
            self.recorder.add_failed(group.id, self._open(group, feasible.skipped, bank), failure)
        self._advance("edited model", len(group.cases) - len(cases))

    @property
    def _asker(self) -> Asker:
        spec, editor = self.job.spec, self.job.editor_spec
        return Asker(
            dataset=self.job.dataset,
            styles=spec.styles,
            edited_form=spec.edited_form,
            own_prompt=editor.own_prompt,
            hides=self.job.hides,
        )

    def _after(self, group: Group, bank: Mapping[str, Edit], case: Case) -> list[Unit]:
        return self._asker.after(case, bank, edited=group.edits(case))

    def _open(self, group: Group, skipped: Mapping[str, str], bank: Mapping[str, Edit]) -> list[Unit]:
        """The units of the group that are not on record."""
        cases = (case for case in group.cases if case.id not in skipped)
        return [unit for case in cases for unit in self.recorder.missing(group.id, self._after(group, bank, case))]

    def _feasible(self, group: Group) -> Feasible:
        """A case that needs a refused edit is left out, and its edits are withheld unless another case needs them."""
        refused = dict(
            self.job.editor.check(self.job.session, distinct(edit for case in group.edited for edit in case.edits))
        )
        skipped: dict[str, str] = {}
        for case in group.edited:
            reasons = [f"edit {edit.id} refused: {refused[edit.id]}" for edit in case.edits if edit.id in refused]
            if reasons or not case.edits:
                skipped[case.id] = reasons[0] if reasons else "the case has no edits"
        edits = distinct(edit for case in group.edited if case.id not in skipped for edit in case.edits)
        if not edits:
            controls = (case.id for case in group.controls if case.id in group.asked)
            skipped |= dict.fromkeys(controls, "no edit of the batch can be made")
        return Feasible(edits=edits, refused=refused, skipped=skipped)

    def _record(self, group: Group, feasible: Feasible, seconds: float, details: Details) -> None:
        edited = [case.id for case in group.edited if case.id not in feasible.skipped]
        self.recorder.add_batch(
            Batch(
                batch=group.id,
                cases=tuple(case for case in edited if case in group.asked),
                unasked=tuple(case for case in edited if case not in group.asked),
                controls=tuple(case.id for case in group.controls if case.id in group.asked),
                edits=len(feasible.edits),
                refused=feasible.refused,
                skipped=feasible.skipped,
                seconds=round(seconds, 3),
                details=details,
            )
        )

    def _chunks(
        self, batch: str, cases: Sequence[Case], units_of: Callable[[Case], list[Unit]], label: str
    ) -> Iterator[list[Unit]]:
        """What is not on record of ``cases``, whole cases together until there are enough questions."""
        chunk: list[Unit] = []
        waiting = 0
        for case in cases:
            chunk += self.recorder.missing(batch, units_of(case))
            waiting += 1
            if sum(len(unit.questions) for unit in chunk) >= CHUNK:
                yield chunk
                self._advance(label, waiting)
                chunk, waiting = [], 0
        if chunk:
            yield chunk
        self._advance(label, waiting)

    def _ask(self, batch: str, edited: Edited, units: Sequence[Unit]) -> None:
        """Record one reply a question, in order. Raises PluginBroken if there are more or fewer."""
        questions = [question for unit in units for question in unit.questions]
        started = perf_counter()
        replies = edited.answer(questions)
        if len(replies) != len(questions):
            name = self.job.spec.editor.name
            raise PluginBroken(
                f"{name} returned {len(replies)} replies to {len(questions)} questions",
                hint=f"tell the author of {name}",
            )
        self.recorder.add(batch, units, replies, seconds=perf_counter() - started)

    def _advance(self, label: str, cases: int) -> None:
        if cases:
            self.done[label] += cases
            self.job.session.progress.advance(label, self.done[label], self.total)


@frozen(kw_only=True)
class Made:
    """An edited model, what the editor wants on record about it, and how long the edit took."""

    edited: Edited
    details: Details
    seconds: float


@contextmanager
def editing(job: Job, edits: Sequence[Edit]) -> Iterator[Made]:
    """Make ``edits`` for as long as the context is open.

    An editor that takes one edit at a time makes them one after another, each on the model that the earlier
    ones left; the last edited model answers, and all are undone in the opposite order.
    """
    session, started = job.session, perf_counter()
    with ExitStack() as stack:
        if job.spec.joint:
            edited = stack.enter_context(job.editor.edit(session, edits))
            details = edited.details
        else:
            each: dict[str, Details] = {}
            for edit in edits:
                edited = stack.enter_context(job.editor.edit(session, [edit]))
                each[edit.id] = edited.details
            details = {"edits": each}
        seconds = perf_counter() - started
        session.model.state()  # reads the weights afresh: the key of everything that is computed from here on
        yield Made(edited=edited, details=details, seconds=seconds)
