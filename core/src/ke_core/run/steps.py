"""A sequential run step by step: its cases are asked again and again, and later edits may undo earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from attrs import define, evolve, field

from ke_core.data.results import MetricScore
from ke_core.protocols import Metric
from ke_core.results.aggregate import Population, Values
from ke_core.results.columns import Names
from ke_core.results.index import Index
from ke_core.run.job import Measure
from ke_core.run.loop import UNEDITED_BATCH
from ke_core.run.tables import CaseLines, Counts, models

EDITS_MADE = "edits made"
"""The tag of scores of one step of sequential editing."""
EDITS_SINCE = "edits made since"
"""The tag of scores of cases after whose own edits that many others were made: a forgetting curve."""


@define
class Steps:
    """Of each step the values of the cases that it asked; ``_made`` are the edits that were in the model by then.

    ``_at``: case to how many edits were in the model with its own. ``_ages``: how many were made since, of any case.
    """

    index: Index
    _values: list[Values]
    _made: dict[str, int]
    _at: dict[str, int]
    _population: Population = field(factory=Population)
    _edited: Population = field(factory=Population)
    _ages: set[int] = field(factory=set)

    @classmethod
    def of(cls, index: Index, measures: Sequence[Measure], names: Names) -> Steps:
        """None of them read so far."""
        made: dict[str, int] = {}
        at: dict[str, int] = {}
        edits = 0
        asked = {batch for batch, phase in index.asked if phase == "after"}
        for batch in index.batches.values():
            edits += 0 if batch.failed else batch.edits
            for case in (*batch.cases, *batch.unasked):
                at.setdefault(case, edits)
            if asked & {UNEDITED_BATCH, batch.batch}:
                # A step that added nothing has the model of the one before: it was asked last.
                made = {name: number for name, number in made.items() if number != edits} | {batch.batch: edits}
        values = [Values.of(each.metric, each.spec, by=(EDITS_SINCE,), names=names) for each in measures]
        return cls(index, values, made, at)

    def add(self, own: CaseLines) -> None:
        """What was asked of a case, step by step."""
        for record in own.steps():
            if record.batch not in self._made:
                continue
            tags = {}
            self._population.add(record)
            if record.edited and record.skipped is None:
                age = self._made[record.batch] - self._at[record.case.id]
                tags = {EDITS_SINCE: str(age)}
                self._ages.add(age)
                self._edited.add(record)
            for values in self._values:
                values.add(record, tags)

    def scores(self, number: int, measure: Measure, counts: Counts, *, seed: int) -> Iterator[MetricScore]:
        """Of the metric of that number: of all cases of each step, told apart by how many edits were in the model;
        then over all steps by how many edits were made after a case's own: whether earlier edits last.

        There are none of the latter where every case was asked right after its own edits alone.
        """
        values = self._values[number]
        cases = values.columns.by_batch()
        values.add_models(models(self.index, measure, counts.memory, sequential=True))
        rows = values.columns.by_batch()
        for batch, made in self._made.items():
            shares = self._population.shares(batch)
            for score in values.scores((), shares=shares, seed=seed, rows=rows.get(batch, ())):
                if score.phase == "after":
                    yield evolve(score, tags={EDITS_MADE: str(made)})
        if len(self._ages) > 1 and isinstance(measure.metric, Metric):
            every = chain.from_iterable(cases.get(batch, ()) for batch in self._made)
            aged = values.columns.tagged(EDITS_SINCE, every)
            found = values.scores((EDITS_SINCE,), shares=self._edited.shares(), seed=seed, rows=aged)
            yield from (score for score in found if EDITS_SINCE in score.tags and score.phase == "after")
