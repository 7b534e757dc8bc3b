"""Compare the labels that a metric gives to answers, such as error types, with manual labels.

A metric with ``labels`` in its specification gives each answer one of them: the aspect whose value is 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.app import Agreement, Catalog, Options, ResolvedComponent, bootstrap, reject_unused, resolve_component
from ke_core.plugin import CaseRecord, Interval, Phase
from ke_plugin_analysis.kappa import measure_agreement

Place = tuple[str, Phase, str, str]
"""Case, phase, style, query."""
NOT_SEEN = "the metric does not label such answers"


@frozen(kw_only=True)
class LabelingMetric:
    """A metric's ``labels``, the label of each answer in ``found``, and why other answers have none in ``reasons``."""

    chosen: ResolvedComponent[Any]
    labels: tuple[str, ...]
    found: Mapping[Place, str]
    reasons: Mapping[Place, str]

    @property
    def name(self) -> str:
        """The name of the metric and of its column in the sheet."""
        return self.chosen.component.name


@frozen(kw_only=True)
class LabelFraction:
    """The number and fraction of the manually labeled answers that have a label."""

    count: int
    value: float
    interval: Interval | None


@frozen(kw_only=True)
class LabelComparison:
    """Manual labels compared with a metric's: ``table[manual][metric]`` counts the answers that have both.

    ``shares``: fractions of the ``n`` manually labeled answers, by label. ``agreement``: None if the metric labeled
    none of them. ``apart``: why the metric has no label for the others.
    """

    sorting: LabelingMetric
    n: int
    shares: Mapping[str, LabelFraction]
    agreement: Agreement | None
    table: Mapping[str, Mapping[str, int]]
    apart: Mapping[str, int]


def choose_labeling_metric(catalog: Catalog, options: Options) -> list[ResolvedComponent[Any]]:
    """Return the installed metrics that label answers. Raises BadConfig for an option that none of them has."""
    chosen = [
        resolve_component(catalog, "metric", name, options)
        for name in catalog.names("metric")
        if labels_of(catalog, name)
    ]
    reject_unused(options, [each.spec for each in chosen])
    return chosen


def labels_of(catalog: Catalog, metric: str) -> tuple[str, ...]:
    """Return the labels of a metric. Most metrics have none."""
    spec: Any = catalog.spec("metric", metric)
    found: tuple[str, ...] = spec.labels
    return found


def sort(chosen: ResolvedComponent[Any], catalog: Catalog, records: Sequence[CaseRecord]) -> LabelingMetric:
    """Label the answers of ``records`` with the metric."""
    labels = labels_of(catalog, chosen.component.name)
    metric = chosen.build()
    found: dict[Place, str] = {}
    reasons: dict[Place, str] = {}
    for record in records:
        for value in metric.values(record):
            place = (record.case.id, value.phase, value.style, value.tags.get("query", ""))
            if value.aspect in labels and value.value is None:
                reasons[place] = value.skipped_because
            elif value.aspect in labels and value.value == 1:
                found[place] = value.aspect
    return LabelingMetric(chosen=chosen, labels=labels, found=found, reasons=reasons)


def compare_labels(sorting: LabelingMetric, by_hand: Mapping[Place, str], *, seed: int) -> LabelComparison:
    """Compare manual labels with the metric's. The resampling unit of intervals is the case."""
    both = [(label, sorting.found[place]) for place, label in by_hand.items() if place in sorting.found]
    units = [place[0] for place in by_hand if place in sorting.found]
    counts = Counter(both)
    why = Counter(sorting.reasons.get(place, NOT_SEEN) for place in by_hand if place not in sorting.found)
    found = measure_agreement([a for a, _b in both], [b for _a, b in both], seed=seed, units=units) if both else None
    return LabelComparison(
        sorting=sorting,
        n=len(by_hand),
        shares={label: _share(label, by_hand, seed=seed) for label in sorting.labels},
        agreement=found,
        table={label: {other: counts[label, other] for other in sorting.labels} for label in sorting.labels},
        apart=dict(why.most_common()),
    )


def _share(label: str, by_hand: Mapping[Place, str], *, seed: int) -> LabelFraction:
    hits = [float(given == label) for given in by_hand.values()]
    interval = bootstrap(hits, [place[0] for place in by_hand], seed=seed, lowest=0.0)
    return LabelFraction(count=int(sum(hits)), value=sum(hits) / len(hits), interval=interval)
