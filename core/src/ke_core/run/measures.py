"""The judge and the metrics of a run: chosen by name, or by the dataset, with their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ke_core.errors import BadConfig
from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import reject_unused
from ke_core.results.folder import RunFolder
from ke_core.run.components import Options, ResolvedComponent, resolve_component
from ke_core.run.job import Measure
from ke_core.run.judges import ChosenJudge, metrics_of, resolve_judge
from ke_core.run.probing import asks_of
from ke_core.specs import DatasetSpec, MetricSpec

NO_OPTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def judge_and_metrics(
    catalog: Catalog, dataset: DatasetSpec, options: Options, *, judge: str = "", metrics: Sequence[str] = ()
) -> tuple[ChosenJudge, tuple[ResolvedComponent, ...]]:
    """Return the judge and the metrics of a new run. Raises BadConfig for a judge that needs a model."""
    judging = dataset_judge(catalog, dataset, judge, options)
    name = judging.spec.name
    if judging.spec.needs_model:
        raise BadConfig(
            f"judge {name} asks a model of its own, and comes after the run",
            hint=f"choose another with --judge now, then ke judge RUN --judge {name} --judge-model MODEL",
        )
    return judging, dataset_metrics(catalog, dataset, metrics, options)


def dataset_judge(catalog: Catalog, dataset: DatasetSpec, name: str, options: Options) -> ChosenJudge:
    """Return the judge called ``name``, or the dataset's default judge."""
    if not (name or dataset.judge):
        raise BadConfig(f"dataset {dataset.name} names no judge", hint="choose one with --judge")
    return resolve_judge(catalog, name or dataset.judge, options)


def dataset_metrics(
    catalog: Catalog, dataset: DatasetSpec, names: Sequence[str], options: Options
) -> tuple[ResolvedComponent, ...]:
    """Return the metrics called ``names``, or the dataset's default metrics."""
    if not (names or dataset.metrics):
        raise BadConfig(f"dataset {dataset.name} names no metric", hint="choose one with --metric")
    return tuple(
        resolve_component(catalog, "metric", name, options) for name in dict.fromkeys(names or dataset.metrics)
    )


def build_metrics(chosen: Sequence[ResolvedComponent]) -> tuple[Measure, ...]:
    """Build the chosen metrics."""
    return tuple(
        Measure(component=each.component, spec=each.spec, metric=each.build(), asks=asks_of(each))
        for each in chosen
        if isinstance(each.spec, MetricSpec)
    )


def measures_of(
    folder: RunFolder,
    catalog: Catalog,
    dataset: DatasetSpec,
    *,
    metrics: Sequence[str] = (),
    judge: str = "",
    options: Options = NO_OPTIONS,
) -> tuple[Measure, ...]:
    """Return the metrics that a recorded run is scored with.

    Without ``metrics``: the metrics that belong to ``judge``, else the dataset's and those that asked in this run.
    """
    asked = tuple(ask.component.name for ask in folder.spec.asks)
    names = tuple(metrics) or metrics_of(catalog, judge) or (*dataset.metrics, *asked)
    chosen = dataset_metrics(catalog, dataset, names, options)
    reject_unused(options, [each.spec for each in chosen])
    return build_metrics(chosen)
