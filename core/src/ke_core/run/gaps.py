"""Whether all that was planned is on record, once the processes that shared a run have put their parts together.

Each process asks its share and trusts the others to ask theirs. Where one did not, a number would be of fewer questions
than it says: so the first one looks, before it judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ke_core.data.queries import Case
from ke_core.data.records import Batch, Probed, Replied
from ke_core.errors import BadRun
from ke_core.results.folder import RECORDS, RunFolder
from ke_core.run.asks import Unit
from ke_core.run.loop import BASE, Loop
from ke_core.run.plan import Group


def refuse_gaps(loop: Loop, folder: RunFolder, groups: Sequence[Group], asked: Sequence[Group]) -> None:
    """Raise BadRun where something is not on record of what the plan asks.

    Of the unedited model it asks the cases of ``groups``, of edited ones those of ``asked``.
    """
    batches: dict[str, Batch] = {}
    places: set[tuple[str, ...]] = set()
    for record in folder.read():
        if isinstance(record, Batch):
            batches[record.batch] = record
        elif isinstance(record, Replied | Probed):
            places.add(record.place)
    base = [case for group in groups for case in group.cases] if loop.job.editor_spec.needs_model else []
    planned = [_unedited(loop, base), *(_edited(loop, group, batches.get(group.id)) for group in asked)]
    gaps = [place for each in planned for place in each if place not in places]
    if gaps:
        raise BadRun(
            f"{folder.path / RECORDS} does not hold all that was to be asked: {len(gaps)} are not there, the first of "
            f"them {', '.join(gaps[0])}",
            hint="start the same run again, with any number of processes: it goes on",
        )


def _unedited(loop: Loop, cases: Sequence[Case]) -> Iterator[tuple[str, ...]]:
    """What is asked of the unedited model, by the places of its records."""
    for case in cases:
        yield from _places(BASE, loop.before_edits(case))
    if cases:
        yield from ((BASE, measure.component.name) for measure in loop.job.asking)


def _edited(loop: Loop, group: Group, batch: Batch | None) -> Iterator[tuple[str, ...]]:
    """The same of the model that the edits of ``batch`` left; a step of which nothing is asked leaves no reply."""
    if batch is None:
        yield (group.id,)  # no record has it for its place
        return
    open_ = {*batch.cases, *batch.controls}.difference(batch.skipped)
    for case in group.cases:
        if case.id in open_:
            yield from _places(group.id, loop.after_edits(group, {}, case))
    if group.asked if loop.job.spec.plan.sequential else batch.edits:
        yield from ((group.id, measure.component.name) for measure in loop.job.asking)


def _places(batch: str, units: Iterable[Unit]) -> Iterator[tuple[str, ...]]:
    return ((batch, unit.case, unit.phase, unit.style) for unit in units if unit.questions)
