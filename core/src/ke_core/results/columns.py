"""Hold the values of a metric in 28 bytes each: a run has several for every question of every case."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field

from ke_core.spec.queries import Phase
from ke_core.spec.results import Value

Source = tuple[str, Phase, str, str]
"""Aspect, phase and style of a value, and what its own unit is, in a word."""


@define
class Names:
    """Texts by number, each kept once. What many columns hold (case ids, batches) they may share."""

    _numbers: dict[str, int] = field(factory=dict)
    _texts: list[str] = field(factory=list)

    def number(self, text: str) -> int:
        """The same for the same text."""
        if (known := self._numbers.get(text)) is not None:
            return known
        self._numbers[text] = len(self._texts)
        self._texts.append(text)
        return len(self._texts) - 1

    def text(self, number: int) -> str:
        """The text of that number."""
        return self._texts[number]


def _numbers() -> array[int]:
    return array("i")


@define(kw_only=True)
class Columns:
    """``by``: the tags that are kept; names may be added. A missing value is stored as NaN."""

    by: dict[str, None]
    names: Names = field(factory=Names)
    _values: array[float] = field(factory=lambda: array("d"))
    _sources: array[int] = field(factory=_numbers)
    _units: array[int] = field(factory=_numbers)
    _batches: array[int] = field(factory=_numbers)
    _reasons: array[int] = field(factory=_numbers)
    _tags: array[int] = field(factory=_numbers)
    _source_numbers: dict[Source, int] = field(factory=dict)
    _tag_numbers: dict[tuple[tuple[str, str], ...], int] = field(factory=dict)

    def add(self, value: Value, *, unit: str, batch: str, tags: Mapping[str, str], word: str) -> None:
        """A row. ``unit``: what the value was given as its own, or its case; ``word``: what that is."""
        source = (value.aspect, value.phase, value.style, word)
        kept = tuple((tag, tags[tag]) for tag in self.by if tag in tags)
        self._values.append(math.nan if value.value is None else value.value)
        self._sources.append(self._source_numbers.setdefault(source, len(self._source_numbers)))
        self._units.append(self.names.number(unit))
        self._batches.append(self.names.number(batch))
        self._reasons.append(self.names.number(value.skipped_because))
        self._tags.append(self._tag_numbers.setdefault(kept, len(self._tag_numbers)))

    def by_source(self, rows: Iterable[int] | None = None) -> dict[Source, array[int]]:
        """All rows (or ``rows``, in that order) by their source, in the order in which these come."""
        sources = [*self._source_numbers]
        found: dict[int, array[int]] = {}
        for row in range(len(self._values)) if rows is None else rows:
            found.setdefault(self._sources[row], _numbers()).append(row)
        return {sources[number]: some for number, some in found.items()}

    def by_batch(self) -> dict[str, array[int]]:
        """All rows by their batch."""
        found: dict[int, array[int]] = {}
        for row, batch in enumerate(self._batches):
            found.setdefault(batch, _numbers()).append(row)
        return {self.names.text(number): some for number, some in found.items()}

    def by_tag(self, tag: str, rows: Iterable[int]) -> dict[str, array[int]]:
        """Those of ``rows`` that have ``tag``, by what it says."""
        said = [dict(kept).get(tag) for kept in self._tag_numbers]
        found: dict[str, array[int]] = {}
        for row in rows:
            name = said[self._tags[row]]
            if name is not None:
                found.setdefault(name, _numbers()).append(row)
        return found

    def tagged(self, tag: str, rows: Iterable[int]) -> array[int]:
        """Those of ``rows`` that have ``tag``, in their order."""
        having = {number for kept, number in self._tag_numbers.items() if tag in dict(kept)}
        return array("i", (row for row in rows if self._tags[row] in having))

    def sample(self, rows: Iterable[int], *, batches: bool) -> tuple[list[float], list[str]]:
        """The values that are there, and the unit of each: its own, or its batch."""
        units, there = self._batches if batches else self._units, [*self._there(rows)]
        return [self._values[row] for row in there], [self.names.text(units[row]) for row in there]

    def reasons(self, rows: Iterable[int]) -> Counter[str]:
        """Why values are missing."""
        missing = (row for row in rows if math.isnan(self._values[row]))
        return Counter(self.names.text(self._reasons[row]) for row in missing)

    def _there(self, rows: Iterable[int]) -> Iterator[int]:
        return (row for row in rows if not math.isnan(self._values[row]))
