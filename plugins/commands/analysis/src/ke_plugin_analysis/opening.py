"""Open recorded runs for comparison: their plans, and their records case by case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import tee
from typing import cast

from attrs import define, field, frozen

from ke_core.app import (
    IMPORTED,
    UNFINISHED,
    Catalog,
    Component,
    RecordedRun,
    RunFolder,
    groups,
    recorded_run,
    records_of,
    select,
)
from ke_core.plugin import Case, CaseRecord


@frozen
class PlannedCase:
    """The part of a case that a plan depends on."""

    id: str


@define(kw_only=True)
class OpenRun:
    """A run with its dataset. ``order``: the ids of the dataset's cases. ``planned``: those of the run's plan.

    ``first`` yields the records for the first pass over the run, ``within`` for any further one.
    """

    folder: RunFolder
    known: RecordedRun
    judge: Component
    order: Sequence[str]
    planned: Mapping[str, None]
    _name: str
    _records: Iterator[CaseRecord]
    _answered: set[str] = field(factory=set)

    @property
    def open(self) -> int:
        """The number of planned cases without answers, after the first pass."""
        return len(self.planned.keys() - self._answered)

    def first(self, order: Mapping[str, int]) -> Iterator[CaseRecord]:
        """Yield the records of the cases in ``order``, by their place. Runs of one dataset are read in parallel."""
        return self._in_order(self._noted(), order)

    def within(self, order: Mapping[str, int]) -> RecordsInOrder:
        """Return the same records. Each iteration reads them again."""
        return RecordsInOrder(self, order)

    def again(self, order: Mapping[str, int]) -> Iterator[CaseRecord]:
        """Read the records of the cases in ``order`` again."""
        return self._in_order(records_of(self.folder, self.known.cases, judge=self._name)[1], order)

    def _noted(self) -> Iterator[CaseRecord]:
        for record in self._records:
            if record.skipped != UNFINISHED:
                self._answered.add(record.case.id)
            yield record

    def _in_order(self, records: Iterable[CaseRecord], order: Mapping[str, int]) -> Iterator[CaseRecord]:
        own = (record for record in records if record.case.id in order)
        if [case for case in self.order if case in order] == [*order]:
            return own
        return iter(sorted(own, key=lambda record: order[record.case.id]))  # another dataset with these cases


@frozen
class RecordsInOrder:
    """The records of a run. Each iteration reads them again."""

    run: OpenRun
    order: Mapping[str, int]

    def __iter__(self) -> Iterator[CaseRecord]:
        """Yield the records in the order of ``order``."""
        return self.run.again(self.order)


def open_runs(folders: Sequence[RunFolder], catalog: Catalog, *, judge: str, data_dir: str) -> list[OpenRun]:
    """Open each run. The runs of a dataset share it, and a first pass over all of them reads its cases once.

    Raises BadRun for a run that has not been judged.
    """
    found: dict[int, OpenRun] = {}
    specs = [folder.spec.dataset for folder in folders]
    for at, spec in enumerate(specs):
        if specs.index(spec) < at:
            continue
        sharing = [number for number, other in enumerate(specs) if other == spec]
        known = recorded_run(folders[at], catalog, data_dir)
        order = [case.id for case in known.cases]
        for number, cases in zip(sharing, tee(known.cases, len(sharing)), strict=True):
            component, records = records_of(folders[number], cases, judge=judge)
            found[number] = OpenRun(
                folder=folders[number],
                known=known,
                judge=component,
                order=order,
                planned=_planned(folders[number], known, order, judge),
                name=judge,
                records=records,
            )
    return [found[number] for number in range(len(folders))]


def _planned(folder: RunFolder, known: RecordedRun, order: Sequence[str], judge: str) -> dict[str, None]:
    """Return the planned cases; for an imported run the cases that its file answers."""
    if folder.spec.model.source == IMPORTED:
        records = records_of(folder, known.cases, judge=judge)[1]
        return dict.fromkeys(record.case.id for record in records if record.skipped is None)
    plan, seed = folder.spec.plan, folder.spec.seed
    cases = cast("Sequence[Case]", [PlannedCase(case) for case in order])
    made = groups(select(cases, plan, seed), plan, seed, known.dataset.split)
    return dict.fromkeys(case.id for group in made for case in group.cases)
