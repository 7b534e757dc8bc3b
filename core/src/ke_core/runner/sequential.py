"""Sequential editing: apply batch after batch, without restoring the model in between.

What is recorded is not asked again. But a run that was killed applies every edit again, in order: the edited weights
are gone, and without the edits of a finished batch it would be another experiment (pitfall E8).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field

from ke_core.engine.passthrough import PassthroughModel
from ke_core.runner.apply import EditApplier, untouched
from ke_core.runner.plan import Stage
from ke_core.runner.steps import Runner
from ke_core.spec.errors import EditFailed
from ke_core.spec.facts import Edit, EditBank
from ke_core.spec.results import Failure


def ask_in_sequence(runner: Runner, stages: Sequence[Stage]) -> None:
    """Apply the edits of every stage and ask its cases. The model is restored at the end."""
    last = max((stage.step for stage in stages if _is_open(runner, stage)), default=0)
    if not last:
        return
    with untouched(runner.run.session.model, runner.before), EditApplier.of(runner.run) as applier:
        progress = _Progress(runner=runner, applier=applier)
        for stage in stages[:last]:
            progress.add(stage)


def _is_open(runner: Runner, stage: Stage) -> bool:
    """Whether a request of ``stage`` is not recorded."""
    known = runner.recorder.batches.get(stage.asked.id)
    if known is None:
        return True
    if not stage.asked.asked:
        return False
    left_out = {case.id for case in stage.asked.cases} - {*known.cases, *known.controls}
    open_units = runner.open_units(stage.asked, dict.fromkeys(left_out, ""), {})
    return bool(open_units or runner.unprobed(stage.asked.id))


@define
class _Progress:
    """The edits that are applied, the skipped cases, and the cases whose edits failed, in all stages so far."""

    runner: Runner
    applier: EditApplier
    bank: dict[str, Edit] = field(factory=dict)
    skipped: dict[str, str] = field(factory=dict)
    failed: dict[str, Failure] = field(factory=dict)

    def add(self, stage: Stage) -> None:
        """Apply the edits of ``stage``, record them, and ask."""
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
                self.failed |= {case.id: failure for case in stage.group.edited if case.id not in valid.skipped}
                batch = evolve(batch, failed=str(error))
                runner.recorder.count_edit(failure)
            else:
                runner.recorder.count_edit()
                self.bank |= {edit.id: edit for edit in valid.edits}
                batch = applied.on(batch)
        runner.recorder.add_batch(batch)
        self._ask(stage)

    def _ask(self, stage: Stage) -> None:
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
        runner.advance("edited model", len(mine) - len(cases))
