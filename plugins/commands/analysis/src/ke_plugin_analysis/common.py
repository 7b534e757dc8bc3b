"""A metric over the queries that every one of several runs has a value of.

A metric with conditions of its own (RippleEdits: the edit took, the unedited model knows what the test rests on) is
over other queries in each run, and then a mean may differ by what was left out alone. Here a query counts only if every
run has a value of it: the same queries in every row, averaged over a case's queries first, then over cases, as the
metric itself does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import product

from attrs import evolve, frozen

from ke_core.app import aggregate
from ke_core.plugin import QUERY_TAG, CaseRecord, Metric, MetricScore, MetricSpec, Value

NOT_IN_ALL = "no query of the case has a value in every run"
Place = tuple[str, str, str, int]
"""Case, aspect, query and the how-many-eth value of that (a query may stand in two tests of one aspect)."""


@frozen(kw_only=True)
class SharedScores:
    """The scores of each run over the queries that all of them have; ``styles``: how each was asked.

    ``queries``: how many these are, by the aspect they are averaged into. ``own``: of each run, how many queries it has
    a value of itself.
    """

    metric: str
    styles: tuple[str, ...]
    queries: Mapping[str, int]
    own: tuple[int, ...]
    scores: tuple[tuple[MetricScore, ...], ...]


def shared_scores(
    metric: Metric, spec: MetricSpec, runs: Sequence[Sequence[CaseRecord]], *, seed: int
) -> list[SharedScores]:
    """One for each style that all runs were asked in; where there is none, for each choice of one style a run.

    Nothing for a metric that declares no ``shared``, nor where a run was asked nothing of it. ``seed`` draws the
    bootstrap.
    """
    if not spec.shared:
        return []
    seen = [_measured(metric, spec, records) for records in runs]
    return [_over(metric, spec, runs, seen, styles, seed=seed) for styles in _ways([list(of) for of in seen])]


Measured = Mapping[str, AbstractSet[Place]]
"""Style to the places that have a value."""


def _measured(metric: Metric, spec: MetricSpec, records: Sequence[CaseRecord]) -> Measured:
    found: dict[str, set[Place]] = {}
    for record in records:
        for place, value in _placed(metric, spec, record):
            held = found.setdefault(value.style, set())
            if value.value is not None:
                held.add(place)
    return {style: places for style, places in found.items() if places} or found  # a skipped case has no style


def _placed(metric: Metric, spec: MetricSpec, record: CaseRecord) -> Iterator[tuple[Place, Value]]:
    """The values a query that are averaged, of the edited model; missing ones too, so that all runs count alike."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for value in metric.values(record):
        if value.aspect in spec.shared and value.phase == "after":
            which = (value.style, value.aspect, value.tags[QUERY_TAG])
            yield (record.case.id, *which[1:], seen[which]), value
            seen[which] += 1


def _ways(styles: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """How the runs are put side by side: each style that all have, else every choice of one a run."""
    shared = [style for style in styles[0] if all(style in other for other in styles)]
    yield from [(style,) * len(styles) for style in shared] or product(*styles)


def _over(
    metric: Metric,
    spec: MetricSpec,
    runs: Sequence[Sequence[CaseRecord]],
    seen: Sequence[Measured],
    styles: tuple[str, ...],
    *,
    seed: int,
) -> SharedScores:
    each = [of[style] for of, style in zip(seen, styles, strict=True)]
    places = set.intersection(*map(set, each))
    whole = evolve(spec, by=())
    scores = []
    for records, style in zip(runs, styles, strict=True):
        found = aggregate(_Within(metric=metric, spec=spec, places=places, style=style), whole, records, seed=seed)
        scores.append(tuple(score for score in found if not score.tags))
    counts = Counter(spec.shared[aspect] for _case, aspect, _query, _number in places)
    return SharedScores(
        metric=spec.name,
        styles=styles,
        queries={aspect: counts[aspect] for aspect in spec.shared.values() if counts[aspect]},
        own=tuple(len(of) for of in each),
        scores=tuple(scores),
    )


@frozen(kw_only=True)
class _Within:
    """The metric, of ``places`` alone: a mean for each case that has any."""

    metric: Metric
    spec: MetricSpec
    places: AbstractSet[Place]
    style: str

    def values(self, record: CaseRecord) -> Iterator[Value]:
        held: dict[str, list[float]] = {}
        for place, value in _placed(self.metric, self.spec, record):
            if value.style == self.style:
                some = held.setdefault(self.spec.shared[value.aspect], [])
                if place in self.places and value.value is not None:
                    some.append(value.value)
        for aspect, some in held.items():
            mean = math.fsum(some) / len(some) if some else None
            yield Value(aspect=aspect, value=mean, style=self.style, skipped_because=NOT_IN_ALL if mean is None else "")
