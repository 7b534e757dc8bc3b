"""Load the report of a run from its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from attrs import frozen

from ke_core.plugins.catalog import Catalog
from ke_core.results.folder import SCORES, RunFolder
from ke_core.results.reported import Reported, run_json
from ke_core.results.tally import HEADINGS, NO_METRIC, effort_scores, tally_of
from ke_core.spec.codec import from_json, to_json
from ke_core.spec.errors import BadRun
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import IMPORTED, Component


def read_report(folder: RunFolder, catalog: Catalog) -> Reported:
    """Return the report of a scored run. Raises BadRun."""
    found = read_scores(folder)
    counted = tally_of(folder)
    counted.judge = found.judge
    return Reported(
        path=str(folder.path),
        spec=folder.spec,
        scores=(*found.scores, *(() if folder.spec.model.source == IMPORTED else effort_scores(counted.efforts))),
        columns={name: columns_of(name, catalog) for name in found.metrics},
        tables={name: tables_of(name, catalog) for name in found.metrics},
        less=frozenset(_less_is_better(found.scores, catalog)),
        counts=dict(_counts(found.metrics, catalog)),
        tally=counted,
    )


def progress_json(folder: RunFolder, catalog: Catalog) -> dict[str, Any]:
    """Return a run with its scores, counts and phases as JSON values. Raises BadRun for damaged records."""
    run = None
    if (folder.path / SCORES).exists():
        with suppress(BadRun):  # the records are counted without the scores
            run = read_report(folder, catalog)
    return {
        **run_json(str(folder.path), folder.spec, () if run is None else run.scores),
        "created": folder.created,
        "finished": folder.finished,
        "counts": to_json(tally_of(folder) if run is None else run.tally),
        "phases": [line for line in folder.logged() if line["event"] == "phase"],
    }


def columns_of(metric: str, catalog: Catalog) -> Mapping[str, str]:
    """Aspects and headings of a metric; none where it is not installed, and all its aspects are then shown."""
    offer: Any = catalog.offers["metric"].get(metric)
    return {} if offer is None else offer.spec.columns


def tables_of(metric: str, catalog: Catalog) -> Mapping[str, Mapping[str, str]]:
    """The further tables of a metric, by title."""
    offer: Any = catalog.offers["metric"].get(metric)
    return {} if offer is None else offer.spec.tables


def _counts(metrics: Iterable[str], catalog: Catalog) -> Iterator[tuple[tuple[str, str], str]]:
    """Metrics and aspects, and what their values of 1 count."""
    for metric in metrics:
        offer: Any = catalog.offers["metric"].get(metric)
        for aspect, noun in offer.spec.counts.items() if offer is not None else ():
            yield (metric, aspect), noun


def _less_is_better(scores: Iterable[MetricScore], catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Metrics and aspects; all that the core counts of answers is among them."""
    yield from ((NO_METRIC, aspect) for aspect in HEADINGS)
    for metric, aspect in {(one.metric, one.aspect) for one in scores}:
        offer: Any = catalog.offers["metric"].get(metric)
        if offer is not None and offer.spec.less_is_better(aspect):
            yield metric, aspect


@frozen(kw_only=True)
class RunScores:
    """The scores of a run, the names of its metrics, and its judge."""

    judge: Component
    metrics: tuple[str, ...]
    scores: tuple[MetricScore, ...]


def read_scores(folder: RunFolder) -> RunScores:
    """All of it, from one reading. Raises BadRun if the run has no scores, or they are not as ke writes them."""
    where = str(folder.path / SCORES)
    raw = folder.scores()
    try:
        judge = raw["judge"]
        metrics = [metric["component"]["name"] for metric in raw["metrics"]]
        scores = [score for metric in raw["metrics"] for score in metric["scores"]]
    except (KeyError, TypeError) as error:
        raise BadRun(f"{where} holds no scores", hint=f"delete it and run ke score {folder.path}") from error
    return RunScores(
        judge=from_json(judge, Component, of=where, error=BadRun),
        metrics=tuple(from_json(metrics, list[str], of=where, error=BadRun)),
        scores=tuple(from_json(scores, list[MetricScore], of=where, error=BadRun, hint=f"ke score {folder.path}")),
    )
