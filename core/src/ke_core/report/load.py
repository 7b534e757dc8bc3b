"""From a run folder to what the tables are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.data.results import MetricScore
from ke_core.data.runspec import IMPORTED
from ke_core.plugins.catalog import Catalog
from ke_core.report.effort import HEADINGS, NO_METRIC, effort_scores
from ke_core.report.run import Reported
from ke_core.report.tally import tally_of
from ke_core.results.folder import SCORES, RunFolder
from ke_core.results.measured import read_scores
from ke_core.run.evaluation import score_folder


def load_report(folder: RunFolder, catalog: Catalog, *, data_dir: str = "") -> Reported:
    """The report of one run; a run without scores is scored from its records first. Raises BadRun."""
    if not (folder.path / SCORES).exists():
        score_folder(folder, catalog, data_dir=data_dir)
    found = read_scores(folder)
    counted = tally_of(folder)
    counted.judge = found.judge
    return Reported(
        path=str(folder.path),
        spec=folder.spec,
        scores=(
            *found.scores,
            *(() if folder.spec.model.source == IMPORTED else effort_scores(counted.efforts)),
        ),
        columns={name: columns_of(name, catalog) for name in found.metrics},
        tables={name: tables_of(name, catalog) for name in found.metrics},
        less=frozenset(_less_is_better(found.scores, catalog)),
        tally=counted,
    )


@frozen(kw_only=True)
class LoadedRuns:
    """Runs that were read once; ``folders`` and ``reported`` are parallel."""

    folders: tuple[RunFolder, ...]
    reported: tuple[Reported, ...]


def load_runs(folders: Sequence[RunFolder], catalog: Catalog, *, data_dir: str = "") -> LoadedRuns:
    """Load the reports of several runs; a run without scores is scored first. Raises BadRun."""
    reported = tuple(load_report(folder, catalog, data_dir=data_dir) for folder in folders)
    return LoadedRuns(folders=tuple(folders), reported=reported)


def columns_of(metric: str, catalog: Catalog) -> Mapping[str, str]:
    """Aspects and headings of a metric; none where it is not installed, and all its aspects are then shown."""
    offer: Any = catalog.offers["metric"].get(metric)
    return {} if offer is None else offer.spec.columns


def tables_of(metric: str, catalog: Catalog) -> Mapping[str, Mapping[str, str]]:
    """The further tables of a metric, by title."""
    offer: Any = catalog.offers["metric"].get(metric)
    return {} if offer is None else offer.spec.tables


def _less_is_better(scores: Iterable[MetricScore], catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Metrics and aspects; all that the core counts of answers is among them."""
    yield from ((NO_METRIC, aspect) for aspect in HEADINGS)
    for metric, aspect in {(one.metric, one.aspect) for one in scores}:
        offer: Any = catalog.offers["metric"].get(metric)
        if offer is not None and offer.spec.less_is_better(aspect):
            yield metric, aspect
