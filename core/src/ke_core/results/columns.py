"""Store the values of a metric in 28 bytes each, because a run has several for every question of every case."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field

from ke_core.spec.queries import Phase
from ke_core.spec.results import Value

Source = tuple[str, Phase, str, str]
"""Aspect, phase and style of a value, and the kind of its unit: ``unit``, ``batch`` or ``model``."""


@define
class Names:
    """Texts by number. Each text is stored once, and several columns can share the same texts."""

    _numbers: dict[str, int] = field(factory=dict)
    _texts: list[str] = field(factory=list)

    def number(self, text: str) -> int:
        """Return the number of a text. Equal texts have equal numbers."""
        if text not in self._numbers:
            self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return self._numbers[text]

    def text(self, number: int) -> str:
        """Return the text of that number."""
        return self._texts[number]


def _numbers() -> array[int]:
    return array("i")


def _grouped(rows: Iterable[int], numbers: Sequence[int]) -> dict[int, array[int]]:
    """Group ``rows`` by their numbers."""
    found: dict[int, array[int]] = {}
    for row in rows:
        found.setdefault(numbers[row], _numbers()).append(row)
    return found


@define(kw_only=True)
class Columns:
    """The values of a metric, one row each. ``by``: the stored tags; names may be added. A missing value is NaN."""

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
        """Add a row. ``unit``: its resampling unit. ``word``: the kind of that unit."""
        source = (value.aspect, value.phase, value.style, word)
        kept = tuple((tag, tags[tag]) for tag in self.by if tag in tags)
        self._values.append(math.nan if value.value is None else value.value)
        self._sources.append(self._source_numbers.setdefault(source, len(self._source_numbers)))
        self._units.append(self.names.number(unit))
        self._batches.append(self.names.number(batch))
        self._reasons.append(self.names.number(value.skipped_because))
        self._tags.append(self._tag_numbers.setdefault(kept, len(self._tag_numbers)))

    def by_source(self, rows: Iterable[int] | None = None) -> dict[Source, array[int]]:
        """Group all rows, or ``rows``, by source, in order of first occurrence."""
        sources = [*self._source_numbers]
        found = _grouped(range(len(self._values)) if rows is None else rows, self._sources)
        return {sources[number]: some for number, some in found.items()}

    def by_batch(self) -> dict[str, array[int]]:
        """Group all rows by batch."""
        found = _grouped(range(len(self._batches)), self._batches)
        return {self.names.text(number): some for number, some in found.items()}

    def by_tag(self, tag: str, rows: Iterable[int]) -> dict[str, array[int]]:
        """Group those of ``rows`` that have ``tag`` by its value."""
        texts = {number: dict(kept).get(tag) for kept, number in self._tag_numbers.items()}
        found: dict[str, array[int]] = {}
        for row in rows:
            if (text := texts[self._tags[row]]) is not None:
                found.setdefault(text, _numbers()).append(row)
        return found

    def tagged(self, tag: str, rows: Iterable[int]) -> array[int]:
        """Return those of ``rows`` that have ``tag``, in order."""
        having = {number for kept, number in self._tag_numbers.items() if tag in dict(kept)}
        return array("i", (row for row in rows if self._tags[row] in having))

    def sample(self, rows: Iterable[int], *, batches: bool) -> tuple[list[float], list[str]]:
        """Return the values that are not missing, and the resampling unit of each: its own, or its batch."""
        units = self._batches if batches else self._units
        there = [row for row in rows if not math.isnan(self._values[row])]
        return [self._values[row] for row in there], [self.names.text(units[row]) for row in there]

    def reasons(self, rows: Iterable[int]) -> Counter[str]:
        """Count the reasons of missing values."""
        missing = (row for row in rows if math.isnan(self._values[row]))
        return Counter(self.names.text(self._reasons[row]) for row in missing)
