"""The steps of a run on one model: which requests to send, in which order, and what to record.

Every chunk of replies is on disk before the next chunk is sent. Recorded requests are not sent again, so a run that was
killed resumes: the edits of an unfinished group are applied again, and its remaining requests are sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import dropwhile, islice
from time import perf_counter
from typing import Self

from attrs import define, evolve, field, frozen

from ke_core.engine.passthrough import PassthroughModel
from ke_core.runner.apply import applied_edits, untouched
from ke_core.runner.blinding import Blinder
from ke_core.runner.plan import Group, Share
from ke_core.runner.recorder import Recorder
from ke_core.runner.requests import RequestBuilder, RequestGroup
from ke_core.runner.run import Measure, ResolvedRun
from ke_core.runner.usage import measured_phase
from ke_core.runner.world import World
from ke_core.spec.errors import EditFailed
from ke_core.spec.facts import Edit, EditBank, distinct
from ke_core.spec.protocols import Edited
from ke_core.spec.queries import Case, Phase
from ke_core.spec.records import Batch, Probed
from ke_core.spec.requests import EditorRequest
from ke_core.spec.results import Failure, Reply

Answering = Callable[[Sequence[EditorRequest]], Sequence[Reply]]
"""A model as a function: it returns one reply for each request, in order."""
UNEDITED_BATCH = "base"
"""The batch of the requests to the unedited model."""
UNEDITED, CONTROL = "asking the unedited model", "asking the unedited model with the method's own prompts"
EDITED = "cases edited and asked"
"""Labels of the progress."""
NOTHING = "no edit of the batch can be made"
AHEAD = 128  # groups whose edits an editor may prepare together with the current one
CHUNK = 512
"""The number of requests after which replies are recorded (whole cases). An editor gets a chunk in a few calls, so it
must be large enough to batch, and small enough that a killed run loses little."""


@frozen(kw_only=True)
class ValidEdits:
    """The edits of a group that can be applied, the refused ones and the skipped cases, each with its reason."""

    edits: tuple[Edit, ...]
    refused: Mapping[str, str]
    skipped: Mapping[str, str]


@frozen(kw_only=True)
class PendingBatch:
    """A group just before its edits are applied, and those of its cases that will be asked."""

    group: Group
    valid: ValidEdits
    bank: Mapping[str, Edit]
    cases: Sequence[Case]
    batch: Batch


@define
class Runner:
    """The state of a run in this process.

    ``blinder`` passes requests to the editor's code. ``before`` is the state of the unedited model. ``share``
    are the cases of edited models that this process asks, ``base`` those of the unedited model. ``leads``: this is the
    first process. ``totals``: the numbers of cases by label of the progress. ``done``: how many are finished.
    ``edited``: whether an edit has been applied.
    """

    run: ResolvedRun
    blinder: Blinder
    recorder: Recorder
    before: Mapping[str, object]
    share: Share
    base: Share
    leads: bool
    totals: dict[str, int]
    done: Counter[str] = field(factory=Counter)
    edited: bool = False

    @classmethod
    def of(cls, run: ResolvedRun, recorder: Recorder, world: World) -> Self:
        """Start a run in one process of ``world``. If the processes hold one model together, each does all the work."""
        world = World() if getattr(run.session.model, "split", False) else world
        share = Share.of(run.asked, world, whole=not run.spec.plan.sequential)
        blinder = Blinder(run)
        return cls(
            run=evolve(run, session=blinder.session),
            blinder=blinder,
            recorder=recorder,
            before=run.session.model.state(),
            share=share,
            base=Share.of(run.groups, world),
            leads=world.leads,
            totals={EDITED: sum(len(share.cases(group)) for group in run.asked)},
        )

    def ask_unedited(self) -> None:
        """Send every request that depends on the unedited model only."""
        cases = [case for group in self.run.groups for case in self.base.cases(group)]
        for units in self._chunks(UNEDITED_BATCH, cases, self._builder.before, UNEDITED):
            self.send([(UNEDITED_BATCH, units)], PassthroughModel(self.run.session).answer)
        if self.run.editor_spec.own_before:
            self._ask_control(cases)
        for measure in self.unprobed(UNEDITED_BATCH):
            self._probe(measure, UNEDITED_BATCH, "before", PassthroughModel(self.run.session).answer)

    def _ask_control(self, cases: Sequence[Case]) -> None:
        """Ask the unedited model with the editor's own prompts."""
        if not any(self.recorder.missing(UNEDITED_BATCH, self._builder.control(case)) for case in cases):
            return
        with untouched(self.run.session.model, self.before), self.run.editor.edit(self.run.session, ()) as control:
            for units in self._chunks(UNEDITED_BATCH, cases, self._builder.control, CONTROL):
                self.send([(UNEDITED_BATCH, units)], partial(self.blinder.answer, control))

    def begin(self, group: Group) -> PendingBatch | None:
        """Return the edits of ``group`` and the cases to ask. None if no edit can be applied, which is recorded."""
        valid = self.valid_edits(group)
        if not valid.edits:
            self.recorder.add_batch(self.batch(group, valid, group))
            self.advance(EDITED, len(self.share.cases(group)))
            return None
        cases = [case for case in self.share.cases(group) if case.id not in valid.skipped]
        self.advance(EDITED, len(self.share.cases(group)) - len(cases))
        batch = evolve(self.batch(group, valid, group), first=not self.edited)
        self.edited = True
        return PendingBatch(group=group, valid=valid, bank=EditBank(valid.edits), cases=cases, batch=batch)

    def apply(self, pending: PendingBatch, applied: ExitStack) -> Edited | None:
        """Apply and record the edits of a group until ``applied`` is closed. None if they fail, which is recorded."""
        started = perf_counter()
        try:
            later = tuple if pending.batch.first else partial(self._upcoming, pending.group)  # it has costs of its own
            run = evolve(self.run, session=evolve(self.run.session, upcoming=later))
            edits = applied.enter_context(applied_edits(run, pending.valid.edits))
        except EditFailed as error:
            self._fail(pending, error, seconds=round(perf_counter() - started, 3))
            return None
        self.recorder.add_batch(edits.on(pending.batch))
        self.recorder.count_edit()
        return edits.edited

    def _upcoming(self, group: Group) -> list[Edit]:
        """Return edits of the next groups of this process: all of a group, or the first if they are made one by one."""
        later = islice(dropwhile(lambda other: other is not group, self.run.groups), 1, None)
        found = (self.valid_edits(one).edits for one in later if self.share.takes(one) and self.is_open(one))
        return [edit for edits in islice(found, AHEAD) for edit in edits[: None if self.run.spec.joint else 1]]

    def _fail(self, pending: PendingBatch, error: EditFailed, *, seconds: float) -> None:
        """Record that the edits failed. Every request of the group gets that failure as its reply."""
        group, failure = pending.group, Failure(error=type(error).__name__, message=str(error))
        self.recorder.count_edit(failure)
        self.recorder.add_batch(evolve(pending.batch, seconds=seconds, failed=str(error)))
        units = self.open_units(group, pending.valid.skipped, pending.bank)
        probed = [
            Probed(
                batch=group.id,
                metric=measure.component.name,
                phase="after",
                replies={request.query: failure for request in measure.requests},
            )
            for measure in self.unprobed(group.id)
        ]
        self.recorder.add_failed(group.id, units, failure, probed=probed)
        self.advance(EDITED, len(pending.cases))

    def ask_cases(self, group: Group, cases: Sequence[Case], bank: Mapping[str, Edit], edited: Edited) -> None:
        """Send ``edited`` the requests of ``cases`` that are not recorded, and the metrics' own requests."""
        for units in self._chunks(group.id, cases, partial(self.after_edits, group, bank), EDITED):
            self.send([(group.id, units)], partial(self.blinder.answer, edited))
        self.probe(group, edited)

    def probe(self, group: Group, edited: Edited) -> None:
        """Send ``edited`` the metrics' own requests that are not recorded."""
        for measure in self.unprobed(group.id):
            self._probe(measure, group.id, "after", partial(self.blinder.answer, edited))

    def _probe(self, measure: Measure, batch: str, phase: Phase, answer: Answering) -> None:
        """Send the metric's own requests to one model and record the replies."""
        name, started = measure.component.name, perf_counter()
        sent = [evolve(one, id=f"{batch}/{phase}/{name}/{one.query}", case=name) for one in measure.requests]
        named = {one.query: reply for one, reply in zip(sent, answer(sent), strict=True)}
        seconds = round(perf_counter() - started, 4)
        self.recorder.add_probed(Probed(batch=batch, metric=name, phase=phase, replies=named, seconds=seconds))

    @property
    def _builder(self) -> RequestBuilder:
        return RequestBuilder.of(self.run)

    def unprobed(self, batch: str) -> list[Measure]:
        """Return the metrics whose own requests this process sends and that are not recorded."""
        leads = self.leads if batch == UNEDITED_BATCH else batch in self.share.leads
        asking = self.run.asking if leads else ()
        return [measure for measure in asking if not self.recorder.probed(batch, measure.component.name)]

    def after_edits(self, group: Group, bank: Mapping[str, Edit], case: Case) -> list[RequestGroup]:
        """Return the requests about ``case`` to the model with the edits of ``bank``."""
        return self._builder.after(case, bank, edited=group.edits(case))

    def is_open(self, group: Group) -> bool:
        """Return whether a request of this process to the edited model of ``group`` is not recorded."""
        known = self.recorder.batches.get(group.id)
        if known is None:
            return True
        planned = {*known.cases, *known.controls}.difference(known.skipped)
        if self.open_units(group, [case.id for case in group.cases if case.id not in planned], {}):
            return True
        has_model = known.edits or self.run.spec.plan.sequential  # a sequential step keeps the model of the one before
        return bool(group.asked and has_model and self.unprobed(group.id))

    def open_units(self, group: Group, skipped: Collection[str], bank: Mapping[str, Edit]) -> list[RequestGroup]:
        """Return the requests of the group that this process sends and that are not recorded."""
        cases = (case for case in self.share.cases(group) if case.id not in skipped)
        return [unit for case in cases for unit in self.recorder.missing(group.id, self.after_edits(group, bank, case))]

    def valid_edits(self, group: Group) -> ValidEdits:
        """Ask the editor which edits it refuses.

        A case that needs a refused edit is skipped. Its other edits are applied only if another case needs them.
        """
        wanted = distinct(edit for case in group.edited for edit in case.edits)
        refused = self.run.editor_spec.refused(self.run.editor, self.run.session, wanted)
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

    def batch(self, own: Group, valid: ValidEdits, asked: Group) -> Batch:
        """Return the record of a batch: the edits of ``own`` are applied, then the cases of ``asked`` are asked.

        The two groups differ in a sequential run. Each step lists only its own cases as not asked. Cases that are not
        asked are not skipped.
        """
        edited = [case.id for case in own.edited if case.id not in valid.skipped]
        return Batch(
            batch=asked.id,
            cases=tuple(case.id for case in asked.cases if asked.edits(case) and case.id not in valid.skipped),
            unasked=tuple(case for case in edited if case not in asked.asked),
            controls=tuple(case.id for case in asked.cases if not asked.edits(case)),
            edits=len(valid.edits),
            refused=valid.refused,
            skipped={case: why for case, why in valid.skipped.items() if case in asked.asked},
        )

    def _chunks(
        self, batch: str, cases: Sequence[Case], units_of: Callable[[Case], list[RequestGroup]], label: str
    ) -> Iterator[list[RequestGroup]]:
        """Yield the requests of ``cases`` that are not recorded, in chunks of whole cases."""
        if label != EDITED:
            self.totals[label] = len(cases)
            self.advance(label, 0)
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

    def send(self, asked: Sequence[tuple[str, Sequence[RequestGroup]]], answer: Answering) -> None:
        """Send the requests of one or several batches together, and record one reply for each, in order.

        Raises PluginBroken if there are more or fewer replies.
        """
        requests = [request for _batch, units in asked for unit in units for request in unit.questions]
        engine = self.run.session.engine
        hits = engine.hits
        with measured_phase("answers", self.run.session.model) as phase:
            replies = iter(answer(requests))
        each, cached = phase.seconds / max(1, len(requests)), engine.hits > hits
        for batch, units in asked:
            self.recorder.add(batch, units, replies, each=each, memory=phase.rise, cached=cached)

    def advance(self, label: str, cases: int) -> None:
        """Count ``cases`` as finished and show the progress."""
        self.done[label] += cases
        self.run.session.progress.advance(label, self.done[label], self.totals[label])
