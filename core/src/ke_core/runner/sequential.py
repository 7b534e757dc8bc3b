"""Sequential editing: batch upon batch, each made on the model that the earlier ones left.

Requests that are recorded are not sent again. A run that was killed loads the saved state of its editor and makes the
remaining edits (``ke_core.run.saved_state``). If the editor saves none, the run makes every edit again, in order: a
finished batch without its edits would be another experiment (pitfall E8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, evolve, field

from ke_core.engine.passthrough import PassthroughModel
from ke_core.runner.apply import EditApplier, untouched
from ke_core.runner.loop import Runner
from ke_core.runner.plan import Stage
from ke_core.runner.saved_state import SavedState
from ke_core.spec.errors import EditFailed
from ke_core.spec.facts import Edit, EditBank
from ke_core.spec.results import Failure


def ask_in_sequence(loop: Runner, stages: Sequence[Stage], saved: SavedState | None = None) -> None:
    """Make the edits of every stage and send its requests; the model is restored at the end."""
    last = max((stage.step for stage in stages if _is_open(loop, stage)), default=0)
    if not last:
        return
    with untouched(loop.job.session.model, loop.before), EditApplier.of(loop.job) as maker:
        so_far = _SoFar(loop=loop, maker=maker)
        made = saved.restore(maker, _restorable(loop, stages)) if saved else 0
        for stage in stages[:made]:
            so_far.recall(stage)
        if made:
            so_far.ask(stages[made - 1])
        for stage in stages[made:last]:
            so_far.take(stage)
            if saved:
                saved.write(stage.step, maker)
            so_far.ask(stage)
    if saved:
        saved.remove()


def _restorable(loop: Runner, stages: Sequence[Stage]) -> frozenset[int]:
    """The steps from whose edited model the run can resume: nothing is open of the steps before."""
    found: set[int] = set()
    for stage in stages:
        if stage.asked.id not in loop.recorder.batches:
            break
        found.add(stage.step)
        if _is_open(loop, stage):
            break
    return frozenset(found)


def _is_open(loop: Runner, stage: Stage) -> bool:
    """Whether anything of ``stage`` is not on record."""
    known = loop.recorder.batches.get(stage.asked.id)
    if known is None:
        return True
    if not stage.asked.asked:
        return False
    left_out = {case.id for case in stage.asked.cases} - {*known.cases, *known.controls}
    open_units = loop.open_units(stage.asked, dict.fromkeys(left_out, ""), {})
    return bool(open_units or loop.unprobed(stage.asked.id))


@define
class _SoFar:
    """What the stages so far have left: the edits made, the cases left out, and those whose edits failed."""

    loop: Runner
    maker: EditApplier
    bank: dict[str, Edit] = field(factory=dict)
    skipped: dict[str, str] = field(factory=dict)
    failed: dict[str, Failure] = field(factory=dict)

    def recall(self, stage: Stage) -> None:
        """Count the edits of ``stage``, which were made before the run was killed, and are active."""
        loop, feasible = self.loop, self.loop.feasible(stage.group)
        self.skipped |= feasible.skipped
        loop.edited = True
        why = loop.recorder.batches[stage.asked.id].failed
        if why:
            self._fail(stage, feasible.skipped, Failure(error=EditFailed.__name__, message=why))
        else:
            self.bank |= {edit.id: edit for edit in feasible.edits}

    def _fail(self, stage: Stage, skipped: Mapping[str, str], failure: Failure) -> None:
        self.failed |= {case.id: failure for case in stage.group.edited if case.id not in skipped}

    def take(self, stage: Stage) -> None:
        """Make the edits of ``stage``, and record what that took."""
        loop, feasible = self.loop, self.loop.feasible(stage.group)
        self.skipped |= feasible.skipped
        batch = evolve(
            loop.batch(stage.group, evolve(feasible, skipped=self.skipped), stage.asked),
            step=stage.step,
            skipped=feasible.skipped,
            first=not loop.edited,
        )
        if feasible.edits:
            loop.edited = True
            try:
                made = self.maker.add(feasible.edits)
            except EditFailed as error:
                failure = Failure(error=type(error).__name__, message=str(error))
                self._fail(stage, feasible.skipped, failure)
                batch = evolve(batch, failed=str(error))
                loop.recorder.count_edit(failure)
            else:
                loop.recorder.count_edit()
                self.bank |= {edit.id: edit for edit in feasible.edits}
                batch = made.on(batch)
        loop.recorder.add_batch(batch)

    def ask(self, stage: Stage) -> None:
        """Send the requests of ``stage`` that are not recorded."""
        loop, group = self.loop, stage.asked
        if not group.asked:
            return
        bank = EditBank(self.bank.values())
        for case in loop.share.cases(group):
            if case.id in self.failed:
                units = loop.open_units(evolve(group, asked=frozenset({case.id})), self.skipped, bank)
                loop.recorder.add_failed(group.id, units, self.failed[case.id])
        mine = loop.share.cases(group)
        cases = [case for case in mine if case.id not in self.skipped and case.id not in self.failed]
        loop.ask_cases(group, cases, bank, self.maker.edited or PassthroughModel(loop.job.session))
        loop.advance("edited model", len(mine) - len(cases))
