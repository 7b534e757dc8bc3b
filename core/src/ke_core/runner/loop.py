"""The steps of a run on one model: ask the unedited one; edit for a group of cases, ask them, give the model back.

Every chunk of answers is on the disk before the next is asked. What is on record is not asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter

from attrs import define, evolve, field, frozen

from ke_core.engine.passthrough import PassthroughModel
from ke_core.runner.apply import applied_edits, untouched
from ke_core.runner.blinding import Blinder
from ke_core.runner.job import Job, Measure
from ke_core.runner.plan import Group, Share
from ke_core.runner.probing import failed, probe
from ke_core.runner.recorder import Recorder
from ke_core.runner.requests import RequestBuilder, RequestGroup
from ke_core.runner.usage import Meter
from ke_core.spec.errors import EditFailed
from ke_core.spec.facts import Edit, EditBank, distinct
from ke_core.spec.protocols import Edited
from ke_core.spec.queries import Case
from ke_core.spec.records import Batch
from ke_core.spec.results import Failure

UNEDITED_BATCH = "base"
"""The batch of what the unedited model was asked."""
NOTHING = "no edit of the batch can be made"
CHUNK = 512
"""Questions that are asked before they are recorded, at least (whole cases): an editor gets them in a few calls
(``ke_core.runner.blinding``), so they are enough to batch and few enough to lose."""


@frozen(kw_only=True)
class ValidEdits:
    """What of a group can be run: the edits to make, those refused, the cases left out, each with its reason."""

    edits: tuple[Edit, ...]
    refused: Mapping[str, str]
    skipped: Mapping[str, str]


@frozen(kw_only=True)
class PendingBatch:
    """A group whose edits are about to be made, and the cases of it that will be asked. ``at``: the time."""

    group: Group
    feasible: ValidEdits
    bank: Mapping[str, Edit]
    cases: Sequence[Case]
    batch: Batch
    at: float = field(factory=perf_counter)


@define
class Runner:
    """The steps of one run. ``before``: the state of the unedited model. ``done``: cases behind us, by label.

    ``blinder``: editors are asked through it. ``share``: what of the edited models this process asks, ``base``: and of
    the unedited one; ``leads``: it is the first of its run. ``total``: how many cases that is. ``edited``: whether it
    has made an edit already.
    """

    job: Job
    blinder: Blinder
    recorder: Recorder
    before: Mapping[str, object]
    share: Share
    base: Share
    leads: bool
    total: int
    done: Counter[str] = field(factory=Counter)
    edited: bool = False

    def ask_unedited(self, to_do: Sequence[Group]) -> None:
        """Everything that depends on the unedited model alone, before the first edit."""
        cases = [case for group in to_do for case in self.base.cases(group)]
        for units in self._chunks(UNEDITED_BATCH, cases, self._asker.before, "unedited model"):
            self._ask(UNEDITED_BATCH, PassthroughModel(self.job.session), units)
        if self.job.editor_spec.own_before:
            self._ask_control(cases)
        for measure in self._open_measures(UNEDITED_BATCH) if self.leads else ():
            self.recorder.add_probed(
                probe(measure, PassthroughModel(self.job.session).answer, batch=UNEDITED_BATCH, phase="before")
            )

    def _ask_control(self, cases: Sequence[Case]) -> None:
        """The same, with the editor's own prompts and no edit."""
        if not any(self.recorder.missing(UNEDITED_BATCH, self._asker.control(case)) for case in cases):
            return
        with untouched(self.job.session.model, self.before), self.job.editor.edit(self.job.session, ()) as control:
            for units in self._chunks(UNEDITED_BATCH, cases, self._asker.control, "unedited model, own prompts"):
                self._ask(UNEDITED_BATCH, control, units)

    def ask_edited(self, group: Group) -> None:
        """Make the group's edits, ask its cases, give the model back; an edit that fails is recorded as such."""
        begun = self.begin(group)
        if begun is None:
            return
        try:
            with untouched(self.job.session.model, self.before), applied_edits(self.job, begun.feasible.edits) as made:
                self.recorder.add_batch(made.on(begun.batch))
                self.ask_cases(group, begun.cases, begun.bank, made.edited)
            self.recorder.count_edit()
        except EditFailed as error:
            self.fail(begun, error)

    def begin(self, group: Group) -> PendingBatch | None:
        """What is to be done of ``group``; None where all is on record, or its edits cannot be made."""
        known = self.recorder.batches.get(group.id)
        if known is not None and not self.open_units(group, known.skipped, {}) and not self.unprobed(group.id, known):
            self.advance("edited model", len(self.share.cases(group)))
            return None
        feasible = self.feasible(group)
        if not feasible.edits:
            self.recorder.add_batch(self.batch(group, feasible, group))
            self.advance("edited model", len(self.share.cases(group)))
            return None
        cases = [case for case in self.share.cases(group) if case.id not in feasible.skipped]
        self.advance("edited model", len(self.share.cases(group)) - len(cases))
        batch = evolve(self.batch(group, feasible, group), first=not self.edited)
        self.edited = True
        return PendingBatch(group=group, feasible=feasible, bank=EditBank(feasible.edits), cases=cases, batch=batch)

    def fail(self, begun: PendingBatch, error: EditFailed) -> None:
        """Record that the edits failed, and with it every question of the group."""
        group, failure = begun.group, Failure(error=type(error).__name__, message=str(error))
        self.recorder.count_edit(failure)
        self.recorder.add_batch(evolve(begun.batch, seconds=round(perf_counter() - begun.at, 3), failed=str(error)))
        open_ = self.open_units(group, begun.feasible.skipped, begun.bank)
        self.recorder.add_failed(group.id, open_, failure, probed=failed(self.unprobed(group.id), group.id, failure))

    def ask_cases(self, group: Group, cases: Sequence[Case], bank: Mapping[str, Edit], edited: Edited) -> None:
        """Ask ``edited`` what is not on record of ``cases``, and what metrics ask of every model."""
        for units in self._chunks(group.id, cases, partial(self.after_edits, group, bank), "edited model"):
            self._ask(group.id, edited, units)
        self.probe(group, edited)

    def probe(self, group: Group, edited: Edited) -> None:
        """Put what metrics ask of every model to ``edited``, unless it is on record."""
        for measure in self.unprobed(group.id):
            self.recorder.add_probed(
                probe(measure, partial(self.blinder.answer, edited), batch=group.id, phase="after")
            )

    @property
    def _asker(self) -> RequestBuilder:
        return RequestBuilder.of(self.job.spec, self.job.editor_spec, self.job.dataset, hides=self.job.hides)

    def unprobed(self, batch: str, known: Batch | None = None) -> list[Measure]:
        """The metrics whose own asks are for this process and not on record; a batch without edits has no model."""
        if (known is not None and not known.edits) or batch not in self.share.leads:
            return []
        return self._open_measures(batch)

    def _open_measures(self, batch: str) -> list[Measure]:
        return [measure for measure in self.job.asking if not self.recorder.probed(batch, measure.component.name)]

    def after_edits(self, group: Group, bank: Mapping[str, Edit], case: Case) -> list[RequestGroup]:
        """What the model with the edits of ``bank`` is asked of ``case``."""
        return self._asker.after(case, bank, edited=group.edits(case))

    def open_units(self, group: Group, skipped: Mapping[str, str], bank: Mapping[str, Edit]) -> list[RequestGroup]:
        """The units of the group that are for this process and not on record."""
        cases = (case for case in self.share.cases(group) if case.id not in skipped)
        return [unit for case in cases for unit in self.recorder.missing(group.id, self.after_edits(group, bank, case))]

    def feasible(self, group: Group) -> ValidEdits:
        """A case that needs a refused edit is left out, and its edits are withheld unless another case needs them."""
        wanted = distinct(edit for case in group.edited for edit in case.edits)
        refused = self.job.editor_spec.refused(self.job.editor, self.job.session, wanted)
        skipped: dict[str, str] = {}
        for case in group.edited:
            reasons = [f"edit {edit.id} refused: {refused[edit.id]}" for edit in case.edits if edit.id in refused]
            if reasons or not case.edits:
                skipped[case.id] = reasons[0] if reasons else case.not_editable or "the case has no edits"
        edits = distinct(edit for case in group.edited if case.id not in skipped for edit in case.edits)
        if not edits:
            controls = (case.id for case in group.controls if case.id in group.asked)
            skipped |= dict.fromkeys(controls, NOTHING)
        return ValidEdits(edits=edits, refused=refused, skipped=skipped)

    def batch(self, own: Group, feasible: ValidEdits, asked: Group) -> Batch:
        """What is recorded before the edits of ``own`` are made and ``asked`` is asked.

        The two differ in a sequential run: of the cases that are not asked, each step lists its own alone.
        """
        edited = [case.id for case in own.edited if case.id not in feasible.skipped]
        return Batch(
            batch=asked.id,
            cases=tuple(case.id for case in asked.cases if asked.edits(case) and case.id not in feasible.skipped),
            unasked=tuple(case for case in edited if case not in asked.asked),
            controls=tuple(case.id for case in asked.cases if not asked.edits(case)),
            edits=len(feasible.edits),
            refused=feasible.refused,
            skipped=feasible.skipped,
        )

    def _chunks(
        self, batch: str, cases: Sequence[Case], units_of: Callable[[Case], list[RequestGroup]], label: str
    ) -> Iterator[list[RequestGroup]]:
        """What is not on record of ``cases``, whole cases together until there are enough questions."""
        chunk: list[RequestGroup] = []
        waiting = 0
        for case in cases:
            chunk += self.recorder.missing(batch, units_of(case))
            waiting += 1
            if sum(len(unit.questions) for unit in chunk) >= CHUNK:
                yield chunk
                self.advance(label, waiting)
                chunk, waiting = [], 0
        if chunk:
            yield chunk
        self.advance(label, waiting)

    def _ask(self, batch: str, edited: Edited, units: Sequence[RequestGroup]) -> None:
        """Record one reply for each question, in order. Raises PluginBroken if there are more or fewer."""
        questions = [question for unit in units for question in unit.questions]
        with Meter(self.job.session.model) as meter:
            started = perf_counter()
            replies = self.blinder.answer(edited, questions)
            seconds = perf_counter() - started
        self.recorder.add(batch, units, replies, seconds=seconds, memory=meter.peak)

    def advance(self, label: str, cases: int) -> None:
        """``cases`` more are behind us."""
        if cases:
            self.done[label] += cases
            self.job.session.progress.advance(label, self.done[label], self.total)
