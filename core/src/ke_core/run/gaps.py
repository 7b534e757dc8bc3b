"""Whether everything that was planned is recorded.

Each of several processes asks its share and trusts the others to ask theirs, and a run may be scored without the
command that made it. In both cases a number could be of fewer questions than it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from ke_core.data.queries import Case
from ke_core.data.records import Batch, Probed, Replied
from ke_core.data.runspec import RunSpec
from ke_core.errors import BadRun
from ke_core.plugins.catalog import Catalog
from ke_core.protocols import Dataset
from ke_core.results.folder import RECORDS, RunFolder
from ke_core.run.asks import RequestBuilder, RequestGroup
from ke_core.run.loop import UNEDITED_BATCH
from ke_core.run.plan import Group, groups, select, stages
from ke_core.run.recorded import RecordedRun
from ke_core.specs import EditorSpec

Place = tuple[str, ...]
"""Where a record belongs: batch, case, phase and style, or batch and metric."""


@frozen(kw_only=True)
class Planned:
    """What a run asks: the unedited model about the cases of ``groups``, edited models about those of ``asked``."""

    spec: RunSpec
    editor: EditorSpec
    asker: RequestBuilder
    groups: Sequence[Group]
    asked: Sequence[Group]

    @classmethod
    def of(cls, spec: RunSpec, editor: EditorSpec, dataset: Dataset, cases: Sequence[Case]) -> Planned:
        """From the specification of a run and all cases of its dataset."""
        made = groups(select(cases, spec.plan, spec.seed), spec.plan, spec.seed, dataset.split)
        asked = [stage.asked for stage in stages(made, spec.plan)] if spec.plan.sequential else made
        asker = RequestBuilder.of(spec, editor, dataset)
        return cls(spec=spec, editor=editor, asker=asker, groups=made, asked=asked)

    def missing(self, folder: RunFolder) -> list[Place]:
        """Return the places of what is planned and not recorded."""
        batches: dict[str, Batch] = {}
        places: set[Place] = set()
        for record in folder.read():
            if isinstance(record, Batch):
                batches[record.batch] = record
            elif isinstance(record, Replied | Probed):
                places.add(record.place)
        planned = [self._unedited(), *(self._edited(group, batches.get(group.id)) for group in self.asked)]
        return [place for each in planned for place in each if place not in places]

    def _unedited(self) -> Iterator[Place]:
        cases = [case for group in self.groups for case in group.cases] if self.editor.needs_model else []
        for case in cases:
            control = self.asker.control(case) if self.editor.own_before else []
            yield from _places(UNEDITED_BATCH, [*self.asker.before(case), *control])
        if cases:
            yield from self._probed(UNEDITED_BATCH)

    def _edited(self, group: Group, batch: Batch | None) -> Iterator[Place]:
        """The same for the model that the edits of ``batch`` left; a step after which nothing is asked has no reply."""
        if batch is None:
            yield (group.id,)  # the place of no record
            return
        open_ = {*batch.cases, *batch.controls}.difference(batch.skipped)
        for case in group.cases:
            if case.id in open_:
                yield from _places(group.id, self.asker.after(case, {}, edited=group.edits(case)))
        if group.asked if self.spec.plan.sequential else batch.edits:
            yield from self._probed(group.id)

    def _probed(self, batch: str) -> Iterator[Place]:
        return ((batch, ask.component.name) for ask in self.spec.asks)


def refuse_gaps(planned: Planned, folder: RunFolder) -> None:
    """Raise BadRun if something that is planned is not recorded."""
    if gaps := planned.missing(folder):
        raise BadRun(
            f"{folder.path / RECORDS} does not hold all that was to be asked: {len(gaps)} are not there, the first of "
            f"them {', '.join(gaps[0])}",
            hint="start the same run again, with any number of processes: it goes on",
        )


def close_if_complete(folder: RunFolder, catalog: Catalog, known: RecordedRun) -> None:
    """Mark a scored run as finished if its records hold everything that it asks.

    What it asks depends on its editor: without that plugin, the run stays as it is.
    """
    offer = catalog.offers["editor"].get(folder.spec.editor.name)
    if folder.complete or offer is None or not isinstance(offer.spec, EditorSpec):
        return
    if not Planned.of(folder.spec, offer.spec, known.dataset, [*known.cases]).missing(folder):
        folder.close()


def _places(batch: str, units: Iterable[RequestGroup]) -> Iterator[Place]:
    return ((batch, unit.case, unit.phase, unit.style) for unit in units if unit.questions)
