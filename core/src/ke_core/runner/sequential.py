"""Sequential editing: batch upon batch, each made on the model that the earlier ones left.

What is on record is not asked again. But a run that was killed makes every edit again from the first, in order: the
edited weights are gone, and to skip a finished batch without its edits would be another experiment (pitfall E8).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field

from ke_core.engine.passthrough import PassthroughModel
from ke_core.runner.apply import EditApplier, untouched
from ke_core.runner.loop import Runner
from ke_core.runner.plan import Stage
from ke_core.spec.errors import EditFailed
from ke_core.spec.facts import Edit, EditBank
from ke_core.spec.results import Failure


def ask_in_sequence(loop: Runner, stages: Sequence[Stage]) -> None:
    """Make the edits of every stage and ask who is to be asked after it; the model is given back at the end."""
    last = max((stage.step for stage in stages if _is_open(loop, stage)), default=0)
    if not last:
        return
    with untouched(loop.job.session.model, loop.before), EditApplier.of(loop.job) as maker:
        so_far = _SoFar(loop=loop, maker=maker)
        for stage in stages[:last]:
            so_far.take(stage)


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

    def take(self, stage: Stage) -> None:
        """Add the edits of ``stage``, record what that took, and ask."""
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
                self.failed |= {case.id: failure for case in stage.group.edited if case.id not in feasible.skipped}
                batch = evolve(batch, failed=str(error))
                loop.recorder.count_edit(failure)
            else:
                loop.recorder.count_edit()
                self.bank |= {edit.id: edit for edit in feasible.edits}
                batch = made.on(batch)
        loop.recorder.add_batch(batch)
        self._ask(stage)

    def _ask(self, stage: Stage) -> None:
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
