"""Read the dataset of a recorded run again, as it was then."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import evolve, field, frozen

from ke_core.plugins.catalog import Catalog
from ke_core.results.folder import RunFolder
from ke_core.runner.resolve import ResolvedComponent, choose_again
from ke_core.spec.errors import BadData, BadRun
from ke_core.spec.protocols import Dataset
from ke_core.spec.queries import Case
from ke_core.spec.specs import DatasetSpec, MetricSpec

Extend = Callable[[Case], Case]
ReadDataset = Callable[[ResolvedComponent[Any]], tuple[Dataset, list[Case]]]


def extended(chosen: Iterable[ResolvedComponent[MetricSpec]], cases: Iterable[Case]) -> Extend:
    """Return a function that adds the probes of the metrics ``chosen`` to a case. ``cases``: all of the dataset."""
    derive = {each.spec.name: each.spec.probes(each.config, cases) for each in chosen if each.spec.probes is not None}

    def extend(case: Case) -> Case:
        more = tuple(evolve(probe, metric=name) for name, one in derive.items() for probe in one(case))
        return evolve(case, probes=(*case.probes, *more)) if more else case

    return extend


@frozen
class StoredCases:
    """Every case of the dataset ``name``. Each iteration reads the cases again; none is kept in memory.

    ``extend`` adds the probes of metrics.
    """

    dataset: Dataset
    name: str
    extend: Extend = field(default=lambda case: case)

    def __iter__(self) -> Iterator[Case]:
        """Yield the cases. Raises BadData if two have the same id."""
        seen: set[str] = set()
        for case in self.dataset.cases():
            if case.id in seen:
                raise BadData(
                    f"dataset {self.name} has two cases called {case.id}", hint="case ids are unique in a dataset"
                )
            seen.add(case.id)
            yield self.extend(case)


@frozen(kw_only=True)
class RecordedRun:
    """The dataset of a run with all its cases, and its defaults for judge and metrics."""

    spec: DatasetSpec
    dataset: Dataset
    cases: StoredCases


def read_dataset(chosen: ResolvedComponent[Any]) -> tuple[Dataset, list[Case]]:
    """Return a dataset and all its cases. Raises BadData."""
    dataset: Dataset = chosen.build()
    with _without_collections():
        return dataset, [*StoredCases(dataset, chosen.spec.name)]


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause the search for garbage in cycles. It visits every object so far again, a third of the time for nothing."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


def recorded_run(folder: RunFolder, catalog: Catalog, data_dir: str = "") -> RecordedRun:
    """Return the dataset of a run. Raises BadRun if it has changed since, BadData if it cannot be read."""
    known = folder.spec.dataset
    chosen = choose_again(catalog, "dataset", known.component, files=folder.files, data_dir=data_dir)
    dataset: Dataset = chosen.build()
    cases = StoredCases(dataset, known.component.name)
    next(iter(cases), None)  # a missing file is another error
    found = dataset.info().sha256
    if found != known.sha256:
        raise BadRun(
            f"{known.component.name} is not what {folder.path} was made with: "
            f"sha256 {found[:12]}, recorded {known.sha256[:12]}",
            hint="point --data-dir to the files the run was made with",
        )
    metrics = [
        choose_again(catalog, "metric", ref.component, files=folder.files)
        for ref in folder.spec.requests
        if _derives(catalog, ref.component.name)
    ]
    if metrics:
        cases = evolve(cases, extend=extended(metrics, cases))
    return RecordedRun(spec=chosen.spec.for_config(chosen.config), dataset=dataset, cases=cases)


def _derives(catalog: Catalog, metric: str) -> bool:
    """Return whether the metric of that name derives probes. Raises UnknownComponent if it is not installed."""
    spec: Any = catalog.registration("metric", metric).spec
    return spec.probes is not None
