"""Values to scores: a mean, its n, what was skipped and why, and an interval; overall and by slices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from ke_core.data.queries import Phase
from ke_core.data.results import CaseRecord, ModelRecord, Score, Value
from ke_core.errors import PluginBroken
from ke_core.protocols import Metric, ModelMetric
from ke_core.results.intervals import Sample, bootstrap, bootstrap_average
from ke_core.specs import MetricSpec

PART = "part"
"""The tag that keeps edited cases and controls apart: ``edited`` or ``control``."""
BUCKET, TESTED = "bucket", "in the published score"
"""Tags of cases that are in a bucket of published tables, and whether these count them (``yes`` or ``no``)."""


@frozen(kw_only=True)
class _Group:
    """What one score is of, and what its bootstrap draws."""

    aspect: str
    phase: Phase
    style: str
    unit: str


@frozen(kw_only=True)
class Observed:
    """One value of a metric. ``own``: the unit that the metric gave it, or its case; ``value.unit``: what the
    bootstrap draws, a whole batch of cases where these shared one edited model. ``unit`` says which, in a word.
    """

    case: str
    own: str
    value: Value
    unit: str


def aggregate(
    metric: Metric | ModelMetric,
    spec: MetricSpec,
    records: Iterable[CaseRecord],
    *,
    models: Iterable[ModelRecord] = (),
    seed: int,
) -> list[Score]:
    """Every score of ``metric``: per aspect, phase and style over all cases, then by each tag of ``spec.by``.

    What it says of ``models`` is averaged over them; one edited model is one batch.

    Where there are controls, also by part (edited, control), and where the dataset has buckets of cases, by these.
    ``seed`` draws the bootstrap. Raises PluginBroken for a value of NaN and for a missing value without a reason:
    nothing is dropped in silence.
    """
    cases = list(records)
    groups: dict[_Group, list[Value]] = {}
    if isinstance(metric, Metric):
        for seen in observations(metric, spec.name, cases):
            _add(groups, seen.value, unit=seen.unit)
    if isinstance(metric, ModelMetric):
        _take_models(groups, metric, spec, models)
    always = (*((PART,) if any(not record.edited for record in cases) else ()), *_buckets(cases))
    by = tuple(dict.fromkeys((*always, *spec.by)))
    scores = [
        evolve(_score(spec.name, group, some, seed=seed), tags=tags, measure=spec.measures.get(group.aspect, "%"))
        for group, values in groups.items()
        for tags, some in _slices(values, by)
    ]
    return [*scores, *_averages(spec, groups, by, seed=seed)]


def observations(metric: Metric, name: str, cases: Sequence[CaseRecord]) -> Iterator[Observed]:
    """Every value of ``metric`` (called ``name``) on ``cases``, with what the bootstrap draws as its unit.

    Raises PluginBroken for a value of NaN and for a missing value without a reason.
    """
    together = _together(cases)
    for record in cases:
        for value in metric.values(record):
            _check(value, name, f"case {record.case.id}")
            batch = together and value.phase == "after"
            tags = {PART: "edited" if record.edited else "control", **record.case.tags, **value.tags}
            own = value.unit or record.case.id
            yield Observed(
                case=record.case.id,
                own=own,
                value=evolve(value, unit=record.batch if batch else own, tags=tags),
                unit="batch" if batch else "unit",
            )


def _take_models(
    groups: dict[_Group, list[Value]], metric: ModelMetric, spec: MetricSpec, models: Iterable[ModelRecord]
) -> None:
    for record in models:
        for value in metric.model_values(record):
            _check(value, spec.name, f"batch {record.batch}")
            unit = "batch" if value.phase == "after" else "model"
            _add(groups, evolve(value, unit=value.unit or record.batch), unit=unit)


def _add(groups: dict[_Group, list[Value]], value: Value, *, unit: str) -> None:
    group = _Group(aspect=value.aspect, phase=value.phase, style=value.style, unit=unit)
    groups.setdefault(group, []).append(value)


def _buckets(records: Sequence[CaseRecord]) -> tuple[str, ...]:
    return (BUCKET, TESTED) if any(BUCKET in record.case.tags for record in records) else ()


def _together(records: Sequence[CaseRecord]) -> bool:
    """Whether some batch holds several cases. The bootstrap then draws whole batches for the edited model.

    Cases that shared one edited model depend on one another; before editing they do not.
    """
    sizes = Counter(record.batch for record in records if record.skipped is None)
    return any(size > 1 for size in sizes.values())


def _slices(values: Sequence[Value], by: Sequence[str]) -> Iterator[tuple[Mapping[str, str], Sequence[Value]]]:
    """All values, then those of each value of each tag, sorted (2 before 10)."""
    yield {}, values
    for tag in by:
        found: dict[str, list[Value]] = {}
        for value in values:
            if tag in value.tags:
                found.setdefault(value.tags[tag], []).append(value)
        for name in sorted(found, key=lambda name: (len(name) if name.isdigit() else 0, name)):
            yield {tag: name}, found[name]


def _score(metric: str, group: _Group, values: Sequence[Value], *, seed: int) -> Score:
    seen = [(value.value, value.unit) for value in values if value.value is not None]
    reasons = Counter(value.skipped_because for value in values if value.value is None)
    numbers, units = [number for number, _unit in seen], [unit for _number, unit in seen]
    interval = bootstrap(numbers, units, seed=seed) if numbers else None
    return Score(
        metric=metric,
        aspect=group.aspect,
        phase=group.phase,
        style=group.style,
        value=math.fsum(numbers) / len(numbers) if numbers else None,
        n=len(numbers),
        skipped=reasons.total(),
        skipped_because=dict(sorted(reasons.items())),
        interval=interval,
        note=f"one {group.unit}, no interval" if numbers and interval is None else "",
    )


def _averages(
    spec: MetricSpec, groups: Mapping[_Group, Sequence[Value]], by: Sequence[str], *, seed: int
) -> Iterator[Score]:
    """The plain means of aspects that the metric has; of those that were observed, and the note says how many."""
    for aspect, parts in spec.averages.items():
        whole = {group: values for group, values in groups.items() if group.aspect in parts}
        for key in dict.fromkeys(evolve(group, aspect=aspect) for group in whole):
            own = [(group, values) for group, values in whole.items() if evolve(group, aspect=aspect) == key]
            slices: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
            for _group, values in own:
                for tags, some in _slices(values, by):
                    seen = [(value.value, value.unit) for value in some if value.value is not None]
                    if seen:
                        sample = ([number for number, _unit in seen], [unit for _number, unit in seen])
                        slices.setdefault(tuple(tags.items()), []).append(sample)
            for tags_, samples in slices.items():
                yield evolve(_average(spec, key, samples, seed=seed), tags=dict(tags_))


def _average(spec: MetricSpec, group: _Group, samples: Sequence[Sample], *, seed: int) -> Score:
    interval = bootstrap_average(samples, seed=seed)
    parts = len(spec.averages[group.aspect])
    notes = [f"{len(samples)} of {parts} were observed"] if len(samples) < parts else []
    return Score(
        metric=spec.name,
        aspect=group.aspect,
        phase=group.phase,
        style=group.style,
        value=math.fsum(math.fsum(values) / len(values) for values, _units in samples) / len(samples),
        n=len({unit for _values, units in samples for unit in units}),
        interval=interval,
        note="; ".join([*notes, *([] if interval else [f"one {group.unit}, no interval"])]),
    )


def _check(value: Value, metric: str, of: str) -> None:
    where = f"metric {metric!r}, {of}, aspect {value.aspect!r}"
    if value.value is None and not value.skipped_because:
        raise PluginBroken(f"{where}: no value and no reason", hint=f"tell the author of {metric!r}")
    if value.value is not None and not math.isfinite(value.value):
        raise PluginBroken(f"{where}: the value is {value.value}", hint=f"tell the author of {metric!r}")
