"""Values of a metric on recorded cases, and the aspects of a case's queries."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from attrs import define, field

from ke_core.app import Population, observed_values
from ke_core.plugin import (
    CONDITION,
    EFFICACY,
    JUDGE_UNSURE,
    PHASES,
    QUERY_TAG,
    Case,
    CaseRecord,
    Metric,
    MetricSpec,
    Phase,
    Value,
    Verdict,
)

Cell = tuple[str, Phase, str]
"""Aspect, phase, style."""
_NUMBERS: Callable[[], array[int]] = partial(array, "i")


@define
class Observations:
    """The values of a metric on the cases of a run, added case by case. A value costs 28 bytes; a missing one is NaN.

    Each row has its case, its own unit (set by the metric, or the case), its query, and the batch of the case. The
    resampling unit of the bootstrap is the own unit, or the batch if its cases shared one edited model. In a
    ``sequential`` run, all cases shared one. ``controls``: the cases that were not edited.
    """

    sequential: bool = False
    values: array[float] = field(factory=partial(array, "d"))
    controls: set[str] = field(factory=set)
    _cases: array[int] = field(factory=_NUMBERS)
    _units: array[int] = field(factory=_NUMBERS)
    _queries: array[int] = field(factory=_NUMBERS)
    _batches: array[int] = field(factory=_NUMBERS)
    _cells: array[int] = field(factory=_NUMBERS)
    _cell_numbers: dict[Cell, int] = field(factory=dict)
    _numbers: dict[str, int] = field(factory=dict)
    _texts: list[str] = field(factory=list)
    _population: Population = field(factory=Population)

    def add(self, metric: Metric, name: str, record: CaseRecord) -> None:
        """Add every value of ``metric``, named ``name``, on a case.

        Raises PluginBroken for a value of NaN and for a missing value without a reason.
        """
        self._population.add(record)
        if not record.edited:
            self.controls.add(record.case.id)
        case, batch = self._number(record.case.id), self._number(record.batch)
        for own, value in observed_values(metric, name, record):
            cell = (value.aspect, value.phase, value.style)
            self.values.append(math.nan if value.value is None else value.value)
            self._cases.append(case)
            self._units.append(self._number(own))
            self._queries.append(self._number(value.tags.get(QUERY_TAG, "")))
            self._batches.append(batch)
            self._cells.append(self._cell_numbers.setdefault(cell, len(self._cell_numbers)))

    def cells(self) -> dict[Cell, array[int]]:
        """Return the rows of each cell that has a value, in the order of the first rows."""
        cells = [*self._cell_numbers]
        found: dict[Cell, array[int]] = {}
        for row, number in enumerate(self._cells):
            found.setdefault(cells[number], _NUMBERS()).append(row)
        return {cell: rows for cell, rows in found.items() if not all(math.isnan(self.values[row]) for row in rows)}

    def by_case(self, rows: Iterable[int]) -> dict[str, array[int]]:
        """Group rows by case."""
        found: dict[str, array[int]] = {}
        for row in rows:
            found.setdefault(self._texts[self._cases[row]], _NUMBERS()).append(row)
        return found

    def place(self, row: int) -> tuple[str, str]:
        """Return the own unit and the query of a row. The query is empty if the metric does not name it."""
        return self._texts[self._units[row]], self._texts[self._queries[row]]

    def shares(self, phase: Phase) -> bool:
        """Return whether the resampling unit of that phase is the batch."""
        return phase == "after" and (self.sequential or self._population.shares())

    def unit(self, row: int, *, batches: bool) -> str:
        """Return the resampling unit of a row. ``batches``: the result of ``shares``."""
        if batches and self.sequential:
            return ""
        return self._texts[(self._batches if batches else self._units)[row]]

    def _number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return self._numbers[text]


def aspects_of(case: Case, phase: Phase) -> dict[str, tuple[str, ...]]:
    """Return the aspects of each query of that phase. The aspect of a probe's condition is ``condition``."""
    found: dict[str, dict[str, None]] = {}
    for probe in case.probes:
        for query in probe.queries if probe.asked(phase) else ():
            found.setdefault(query.id, {})[probe.aspect] = None
        for query in probe.given if phase == "before" else ():
            found.setdefault(query.id, {})[CONDITION] = None
    return {query: tuple(aspects) for query, aspects in found.items()}


VERDICTS = "verdicts"


class Verdicts:
    """For each query of each aspect: 1 if the answer is right, 0 if not, None if the judge is unsure."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield a value for every judged query of the case and each of its aspects."""
        seen: set[tuple[str, Phase, str]] = set()
        for probe in record.case.probes:
            own = [(probe.aspect, phase, query) for phase in PHASES if probe.asked(phase) for query in probe.queries]
            conditions: list[tuple[str, Phase, str]] = [(CONDITION, "before", query.id) for query in probe.given]
            unit = ",".join(probe.edits) if probe.aspect == EFFICACY else ""
            for what in (*((aspect, phase, query.id) for aspect, phase, query in own), *conditions):
                if what not in seen:
                    seen.add(what)
                    yield from self._of(record, *what, unit=unit)

    @staticmethod
    def _of(record: CaseRecord, aspect: str, phase: Phase, query: str, *, unit: str) -> Iterator[Value]:
        for style in record.styles(phase):
            outcome = record.outcomes.get((phase, style, query))
            if outcome is None:
                continue
            unsure = outcome.judgment.verdict is Verdict.UNSURE
            yield Value(
                aspect=aspect,
                value=None if unsure else float(outcome.judgment.verdict is Verdict.RIGHT),
                phase=phase,
                style=style,
                unit=unit,
                tags={QUERY_TAG: query},
                skipped_because=JUDGE_UNSURE if unsure else "",
            )


VERDICTS_SPEC = MetricSpec(name=VERDICTS, summary="right answers, query by query", build=lambda _config: Verdicts())
