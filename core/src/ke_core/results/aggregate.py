"""Aggregate values to scores: mean, n, skipped values with reasons, and interval; overall and by tags."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, evolve, field, frozen

from ke_core.results.columns import Columns, Names
from ke_core.results.intervals import Sample, bootstrap, bootstrap_average
from ke_core.spec.errors import PluginBroken
from ke_core.spec.protocols import Metric, ModelMetric
from ke_core.spec.queries import Phase
from ke_core.spec.results import QUERY_TAG, SHARE, CaseRecord, MetricScore, ModelRecord, Value
from ke_core.spec.specs import MetricSpec

PART_TAG = "part"
"""The tag that keeps edited cases and controls apart: ``edited`` or ``control``."""
BUCKET, TESTED = "bucket", "in the published score"
"""Tags of cases in a bucket of published tables, and whether these tables count them (``yes`` or ``no``)."""


@frozen(kw_only=True)
class _ScoreGroup:
    """The key of a score. The bootstrap samples the values' own units, or ``batches`` of cases."""

    aspect: str
    phase: Phase
    style: str
    unit: str
    batches: bool = False


@define
class Population:
    """Properties of all records together."""

    controls: bool = False
    buckets: bool = False
    query_tags: dict[str, None] = field(factory=dict)
    _sizes: Counter[str] = field(factory=Counter)

    def add(self, record: CaseRecord) -> None:
        """Add a record."""
        self.controls |= not record.edited
        self.buckets |= BUCKET in record.case.tags
        self.query_tags |= _query_tag_names(record)
        if record.skipped is None:
            self._sizes[record.batch] += len(record.case.edits) if record.edited else 1

    def shares(self) -> bool:
        """Return whether any batch has several edits.

        The edits of a batch share an edited model and are dependent, so the bootstrap then samples whole batches.
        Before editing, cases are independent.
        """
        return any(size > 1 for size in self._sizes.values())

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of breakdowns for all metrics: edited cases or controls, buckets of the dataset, tags of queries."""
        parts = (PART_TAG,) if self.controls else ()
        return (*parts, *((BUCKET, TESTED) if self.buckets else ()), *self.query_tags)


@define(kw_only=True)
class Values:
    """The values of one metric, added record by record, and their scores.

    ``sequential``: the batches are states of one model, in which edits accumulate. They are one resampling unit.
    """

    metric: Metric | ModelMetric
    spec: MetricSpec
    columns: Columns
    sequential: bool = False

    @classmethod
    def of(
        cls,
        metric: Metric | ModelMetric,
        spec: MetricSpec,
        *,
        by: Sequence[str] | None = None,
        names: Names,
        sequential: bool = False,
    ) -> Values:
        """Return an empty instance. ``by``: the tags of breakdowns; by default those of the metric and of buckets."""
        kept = dict.fromkeys((PART_TAG, BUCKET, TESTED, *spec.by) if by is None else by)
        return cls(metric=metric, spec=spec, columns=Columns(by=kept, names=names), sequential=sequential)

    def add(self, record: CaseRecord, tags: Mapping[str, str] | None = None) -> None:
        """Add the metric's values of a case. ``tags`` replace the tags of values. Raises PluginBroken."""
        if isinstance(self.metric, Metric):
            if tags is None:
                self.columns.by |= _query_tag_names(record)
            for own, value in observed_values(self.metric, self.spec.name, record):
                kept = value.tags if tags is None else tags
                self.columns.add(value, unit=own, batch=record.batch, tags=kept, word="unit")

    def add_models(self, models: Iterable[ModelRecord]) -> None:
        """Add the metric's values of models. Raises PluginBroken."""
        if not isinstance(self.metric, ModelMetric):
            return
        for record in models:
            for value in self.metric.model_values(record):
                _check(value, self.spec.name, f"batch {record.batch}")
                unit, word = value.unit or record.batch, "batch" if value.phase == "after" else "model"
                self.columns.add(value, unit=unit, batch=record.batch, tags=value.tags, word=word)

    def scores(
        self, by: Sequence[str], *, shares: bool = False, seed: int, rows: Iterable[int] | None = None
    ) -> Iterator[MetricScore]:
        """Yield the scores of all values and by each tag of ``by``, then the averages.

        ``rows``: use only these rows, in this order. ``shares``: the result of ``Population.shares``, which has no
        effect in a sequential run.
        """
        groups: dict[_ScoreGroup, array[int]] = {}
        for (aspect, phase, style, word), some in self.columns.by_source(rows).items():
            batches = (shares or self.sequential) and phase == "after" and word == "unit"
            unit = "batch" if batches else word
            groups[_ScoreGroup(aspect=aspect, phase=phase, style=style, unit=unit, batches=batches)] = some
        for group, some in groups.items():
            for tags, part in self._slices(some, by):
                yield evolve(self._score(group, part, seed=seed), tags=tags)
        yield from self._averages(groups, by, seed=seed)

    def _slices(self, rows: array[int], by: Sequence[str]) -> Iterator[tuple[Mapping[str, str], array[int]]]:
        """Yield all rows, then those of each value of each tag, sorted (2 before 10)."""
        yield {}, rows
        for tag in by:
            found = self.columns.by_tag(tag, rows)
            for name in sorted(found, key=lambda name: (len(name) if name.isdigit() else 0, name)):
                yield {tag: name}, found[name]

    def _sample(self, rows: array[int], group: _ScoreGroup) -> Sample:
        """Return the values of ``rows`` that are not missing, and the resampling unit of each."""
        numbers, units = self.columns.sample(rows, batches=group.batches)
        return numbers, [""] * len(units) if self.sequential and group.batches else units

    def _score(self, group: _ScoreGroup, rows: array[int], *, seed: int) -> MetricScore:
        numbers, units = self._sample(rows, group)
        reasons = self.columns.reasons(rows)
        empty = _empty_score(self.spec, group)
        interval = bootstrap(numbers, units, seed=seed, lowest=_lowest(self.spec, group)) if numbers else None
        return evolve(
            empty,
            value=math.fsum(numbers) / len(numbers) if numbers else None,
            n=len(numbers),
            binary=bool(numbers) and {0.0, 1.0}.issuperset(numbers),
            skipped=reasons.total(),
            skipped_because=dict(sorted(reasons.items())),
            interval=interval,
            note=f"one {group.unit}, no interval" if numbers and interval is None else "",
        )

    def _averages(
        self, groups: Mapping[_ScoreGroup, array[int]], by: Sequence[str], *, seed: int
    ) -> Iterator[MetricScore]:
        """Yield the means over the observed aspects of ``MetricSpec.averages``. The note counts missing ones."""
        for aspect, parts in self.spec.averages.items():
            whole = {group: rows for group, rows in groups.items() if group.aspect in parts}
            for key in dict.fromkeys(evolve(group, aspect=aspect) for group in whole):
                slices: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
                units: dict[tuple[tuple[str, str], ...], set[str]] = {}  # also if batches are sampled
                for group, rows in whole.items():
                    for tags, some in self._slices(rows, by) if evolve(group, aspect=aspect) == key else ():
                        sample = self._sample(some, group)
                        if sample[0]:
                            slices.setdefault(tuple(tags.items()), []).append(sample)
                            own = self.columns.sample(some, batches=False)[1]
                            units.setdefault(tuple(tags.items()), set()).update(own)
                for tags_, samples in slices.items():
                    score = _average(self.spec, key, samples, seed=seed)
                    yield evolve(score, tags=dict(tags_), n=len(units[tags_]))


def aggregate(
    metric: Metric | ModelMetric,
    spec: MetricSpec,
    records: Iterable[CaseRecord],
    *,
    seed: int,
    sequential: bool = False,
) -> list[MetricScore]:
    """Return every score of ``metric``: per aspect, phase and style over all cases, then by each tag of ``spec.by``.

    If there are controls, scores are also broken down by part (edited, control), and if the dataset has buckets of
    cases, by bucket. ``seed``: of the bootstrap. ``sequential``: as in ``Values``. Raises PluginBroken for NaN, and for
    a missing value without a reason.
    """
    population, values = Population(), Values.of(metric, spec, names=Names(), sequential=sequential)
    for record in records:
        population.add(record)
        values.add(record)
    by = tuple(dict.fromkeys((*population.tags, *spec.by)))
    return [*values.scores(by, shares=population.shares(), seed=seed)]


def observed_values(metric: Metric, name: str, record: CaseRecord) -> Iterator[tuple[str, Value]]:
    """Yield each value with its unit, and with the tags of its case and of its query.

    If several have a tag of the same name, the value's own tag comes first, then the query's, then the case's.
    """
    of_case = {PART_TAG: "edited" if record.edited else "control", **record.case.tags}
    of_queries = record.case.tags_by_query
    for value in metric.values(record):
        _check(value, name, f"case {record.case.id}")
        of_query = of_queries.get(value.tags.get(QUERY_TAG, ""), {})
        yield value.unit or record.case.id, evolve(value, tags={**of_case, **of_query, **value.tags})


def _query_tag_names(record: CaseRecord) -> dict[str, None]:
    return dict.fromkeys(name for tags in record.case.tags_by_query.values() for name in tags)


def _average(spec: MetricSpec, group: _ScoreGroup, samples: Sequence[Sample], *, seed: int) -> MetricScore:
    empty = _empty_score(spec, group)
    interval = bootstrap_average(samples, seed=seed, lowest=_lowest(spec, group))
    parts = len(spec.averages[group.aspect])
    notes = [f"{len(samples)} of {parts} were observed"] if len(samples) < parts else []
    return evolve(
        empty,
        value=math.fsum(math.fsum(values) / len(values) for values, _units in samples) / len(samples),
        interval=interval,
        note="; ".join([*notes, *([] if interval else [f"one {group.unit}, no interval"])]),
    )


def _empty_score(spec: MetricSpec, group: _ScoreGroup) -> MetricScore:
    """Return the score of a group without observations."""
    measure = spec.measures.get(group.aspect, SHARE)
    return MetricScore(
        metric=spec.name, aspect=group.aspect, phase=group.phase, style=group.style, value=None, n=0, measure=measure
    )


def _lowest(spec: MetricSpec, group: _ScoreGroup) -> float | None:
    """Return the lowest possible value of a fraction. None for other measures."""
    if spec.measures.get(group.aspect, SHARE) != SHARE:
        return None
    return -1.0 if group.aspect in spec.signed else 0.0


def _check(value: Value, metric: str, of: str) -> None:
    where = f"metric {metric!r}, {of}, aspect {value.aspect!r}"
    if value.value is None and not value.skipped_because:
        raise PluginBroken(f"{where}: no value and no reason", hint=f"tell the author of {metric!r}")
    if value.value is not None and not math.isfinite(value.value):
        raise PluginBroken(f"{where}: the value is {value.value}", hint=f"tell the author of {metric!r}")
