"""Compute a metric over the queries that have a value in every run.

A metric with conditions uses different queries in each run, so means may differ only because of
excluded queries. Here, a query counts only if every run has a value for it. Values are averaged over the queries of a
case and then over cases, as in the metric itself. Example: RippleEdits excludes tests of failed edits.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from operator import and_

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from ke_core.app import aggregate
from ke_core.plugin import QUERY_TAG, CaseRecord, Metric, MetricScore, MetricSpec, Value

NOT_IN_ALL = "no query of the case has a value in every run"
Place = tuple[str, bool, str, str, int]
"""Case, whether it was edited, aspect, query and a counter, because a query may occur in two tests of one aspect."""


@frozen(kw_only=True)
class SharedScores:
    """The scores of each run over the common queries. ``styles``: the prompt style of each run.

    ``queries``: the number of common queries by aspect. ``own``: the number of queries with a value in each run.
    """

    metric: str
    styles: tuple[str, ...]
    queries: Mapping[str, int]
    own: tuple[int, ...]
    scores: tuple[tuple[MetricScore, ...], ...]


def shared_scores(
    metric: Metric,
    spec: MetricSpec,
    runs: Sequence[Iterable[CaseRecord]],
    *,
    seed: int,
    sequential: Sequence[bool] = (),
) -> list[SharedScores]:
    """Return scores for each common style; without a common style, for each combination of the runs' styles.

    Empty for a metric without ``shared`` and if a run has no query of it. ``seed``: the seed of the bootstrap. Each run
    is read twice, record by record. ``sequential``: as in ``compare_records``.
    """
    if not spec.shared:
        return []
    seen = [_measured(metric, spec, records) for records in runs]
    one_model = sequential or [False] * len(runs)
    return [
        _over(metric, spec, runs, seen, styles, one_model, seed=seed)
        for styles in _styles_of([list(of) for of in seen])
    ]


@frozen
class QueryPlaces:
    """A set of places, 8 bytes each: ``keys`` are the sorted hashes of the places.

    Two of a million places have the same hash with a probability of 3e-8.
    """

    keys: NDArray[np.int64]

    @classmethod
    def of(cls, places: array[int]) -> QueryPlaces:
        """Return the set of places with these hashes."""
        return cls(np.unique(np.frombuffer(places, dtype=np.int64)))

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self.keys)

    def __and__(self, other: QueryPlaces) -> QueryPlaces:
        """Return the places in both sets."""
        return QueryPlaces(np.intersect1d(self.keys, other.keys, assume_unique=True))

    def __contains__(self, place: Place) -> bool:
        """Return whether the set has a place."""
        at = int(np.searchsorted(self.keys, hash(place)))
        return at < len(self.keys) and int(self.keys[at]) == hash(place)


Measured = Mapping[str, QueryPlaces]
"""The places with a value, by style."""


def _measured(metric: Metric, spec: MetricSpec, records: Iterable[CaseRecord]) -> Measured:
    found: dict[str, array[int]] = {}
    for record in records:
        for place, value in _places(metric, spec, record):
            held = found.setdefault(value.style, array("q"))
            if value.value is not None:
                held.append(hash(place))
    kept = {style: places for style, places in found.items() if places} or found  # a skipped case has no style
    return {style: QueryPlaces.of(places) for style, places in kept.items()}


def _places(metric: Metric, spec: MetricSpec, record: CaseRecord) -> Iterator[tuple[Place, Value]]:
    """Yield the edited model's values per query, including missing ones, so that all runs count alike."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for value in metric.values(record):
        if value.aspect in spec.shared and value.phase == "after":
            which = (value.style, value.aspect, value.tags[QUERY_TAG])
            yield (record.case.id, record.edited, *which[1:], seen[which]), value
            seen[which] += 1


def _styles_of(styles: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Yield each common style, or else every combination of the runs' styles."""
    shared = [style for style in styles[0] if all(style in other for other in styles)]
    yield from [(style,) * len(styles) for style in shared] or product(*styles)


def _over(
    metric: Metric,
    spec: MetricSpec,
    runs: Sequence[Iterable[CaseRecord]],
    seen: Sequence[Measured],
    styles: tuple[str, ...],
    sequential: Sequence[bool],
    *,
    seed: int,
) -> SharedScores:
    each = [of[style] for of, style in zip(seen, styles, strict=True)]
    places = reduce(and_, each)
    whole = evolve(spec, by=())
    scores = []
    for records, style, one_model in zip(runs, styles, sequential, strict=True):
        within = _Within(metric=metric, spec=spec, places=places, style=style)
        found = aggregate(within, whole, records, seed=seed, sequential=one_model)
        scores.append(tuple(score for score in found if not score.tags))
        counts = within.counts  # the same in every run
    return SharedScores(
        metric=spec.name,
        styles=styles,
        queries={aspect: counts[aspect] for aspect in spec.shared.values() if counts[aspect]},
        own=tuple(len(of) for of in each),
        scores=tuple(scores),
    )


@frozen(kw_only=True)
class _Within:
    """The metric restricted to ``places``: a mean for each case that has any. ``counts``: of places by aspect."""

    metric: Metric
    spec: MetricSpec
    places: QueryPlaces
    style: str
    counts: Counter[str] = field(factory=Counter)

    def values(self, record: CaseRecord) -> Iterator[Value]:
        held: dict[str, list[float]] = {}
        for place, value in _places(self.metric, self.spec, record):
            if value.style == self.style:
                aspect = self.spec.shared[value.aspect]
                some = held.setdefault(aspect, [])
                if value.value is not None and place in self.places:
                    some.append(value.value)
                    self.counts[aspect] += 1
        for aspect, some in held.items():
            mean = math.fsum(some) / len(some) if some else None
            yield Value(aspect=aspect, value=mean, style=self.style, skipped_because=NOT_IN_ALL if mean is None else "")
