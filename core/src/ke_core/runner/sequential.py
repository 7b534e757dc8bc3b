"""Sequential editing: apply batch after batch, without restoring the model in between.

Requests that are recorded are not sent again. A run that was killed loads the saved state of its editor and applies the
remaining edits (``ke_core.runner.saved_state``). If the editor saves none, the run applies every edit again, in order:
without the edits of a finished batch it would be another experiment (pitfall E8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, evolve, field

from ke_core.engine.passthrough import PassthroughModel
from ke_core.runner.apply import EditApplier, untouched
from ke_core.runner.plan import Stage
from ke_core.runner.saved_state import SavedState
from ke_core.runner.steps import EDITED, Runner
from ke_core.spec.errors import EditFailed
from ke_core.spec.facts import Edit, EditBank
from ke_core.spec.results import Failure


def ask_in_sequence(runner: Runner, saved: SavedState | None = None) -> None:
    """Apply the edits of every stage and ask its cases. The model is restored at the end."""
    stages = runner.run.stages
    last = max((stage.step for stage in stages if runner.is_open(stage.asked)), default=0)
    if not last:
        return
    with untouched(runner.run.session.model, runner.before), EditApplier.of(runner.run) as applier:
        progress = _Progress(runner=runner, applier=applier)
        made = saved.restore(applier, _restorable(runner, stages)) if saved else 0
        for stage in stages[:made]:
            progress.recall(stage)
        if made:
            progress.ask(stages[made - 1])
        for stage in stages[made:last]:
            progress.add(stage)
            if saved:
                saved.write(stage.step, applier)
            progress.ask(stage)
    if saved:
        saved.remove()


def _restorable(runner: Runner, stages: Sequence[Stage]) -> frozenset[int]:
    """Return the steps from which the run can resume: every request of the steps before is recorded."""
    found: set[int] = set()
    for stage in stages:
        if stage.asked.id not in runner.recorder.batches:
            break
        found.add(stage.step)
        if runner.is_open(stage.asked):
            break
    return frozenset(found)


@define
class _Progress:
    """The edits that are applied, the skipped cases, and the cases whose edits failed, in all stages so far."""

    runner: Runner
    applier: EditApplier
    bank: dict[str, Edit] = field(factory=dict)
    skipped: dict[str, str] = field(factory=dict)
    failed: dict[str, Failure] = field(factory=dict)

    def recall(self, stage: Stage) -> None:
        """Count the edits of ``stage``, which were applied before the run was killed and are active."""
        runner, valid = self.runner, self.runner.valid_edits(stage.group)
        self.skipped |= valid.skipped
        runner.edited = True
        why = runner.recorder.batches[stage.asked.id].failed
        if why:
            self._fail(stage, valid.skipped, Failure(error=EditFailed.__name__, message=why))
        else:
            self.bank |= {edit.id: edit for edit in valid.edits}

    def _fail(self, stage: Stage, skipped: Mapping[str, str], failure: Failure) -> None:
        self.failed |= {case.id: failure for case in stage.group.edited if case.id not in skipped}

    def add(self, stage: Stage) -> None:
        """Apply the edits of ``stage`` and record them."""
        runner, valid = self.runner, self.runner.valid_edits(stage.group)
        self.skipped |= valid.skipped
        batch = evolve(
            runner.batch(stage.group, evolve(valid, skipped=self.skipped), stage.asked),
            step=stage.step,
            skipped=valid.skipped,
            first=not runner.edited,
        )
        if valid.edits:
            runner.edited = True
            try:
                applied = self.applier.add(valid.edits)
            except EditFailed as error:
                failure = Failure(error=type(error).__name__, message=str(error))
                self._fail(stage, valid.skipped, failure)
                batch = evolve(batch, failed=str(error))
                runner.recorder.count_edit(failure)
            else:
                runner.recorder.count_edit()
                self.bank |= {edit.id: edit for edit in valid.edits}
                batch = applied.on(batch)
        runner.recorder.add_batch(batch)

    def ask(self, stage: Stage) -> None:
        """Send the requests of ``stage`` that are not recorded."""
        runner, group = self.runner, stage.asked
        if not group.asked:
            return
        bank = EditBank(self.bank.values())
        for case in runner.share.cases(group):
            if case.id in self.failed:
                units = runner.open_units(evolve(group, asked=frozenset({case.id})), self.skipped, bank)
                runner.recorder.add_failed(group.id, units, self.failed[case.id])
        mine = runner.share.cases(group)
        cases = [case for case in mine if case.id not in self.skipped and case.id not in self.failed]
        runner.ask_cases(group, cases, bank, self.applier.edited or PassthroughModel(runner.run.session))
        runner.advance(EDITED, len(mine) - len(cases))
