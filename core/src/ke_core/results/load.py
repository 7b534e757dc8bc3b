"""Load the report of a run from its folder."""

from __future__ import annotations

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
    """Return the report of a scored run. Raises BadRun.

    A metric that is not installed has no headings: all its aspects are shown.
    """
    found = read_scores(folder)
    counted = tally_of(folder)
    counted.judge = found.judge
    registrations = catalog.registrations["metric"]
    names = [metric.name for metric in found.metrics]
    specs: dict[str, Any] = {name: registrations[name].spec for name in names if name in registrations}
    places = {(score.metric, score.aspect) for score in found.scores if score.metric in specs}
    less = {(name, aspect) for name, aspect in places if specs[name].less_is_better(aspect)}
    return Reported(
        path=str(folder.path),
        spec=folder.spec,
        scores=(*found.scores, *(() if folder.spec.model.source == IMPORTED else effort_scores(counted.efforts))),
        columns={name: specs[name].columns if name in specs else {} for name in names},
        tables={name: spec.tables for name, spec in specs.items()},
        less=frozenset(less | {(NO_METRIC, aspect) for aspect in HEADINGS}),
        counts={(name, aspect): noun for name, spec in specs.items() for aspect, noun in spec.counts.items()},
        metrics=found.metrics,
        tally=counted,
        complete=folder.complete,
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


@frozen(kw_only=True)
class RunScores:
    """The scores of a run, its metrics, and its judge."""

    judge: Component
    metrics: tuple[Component, ...]
    scores: tuple[MetricScore, ...]


def read_scores(folder: RunFolder, *, current: bool = True) -> RunScores:
    """Read the scores of a run. Raises BadRun if there are none, or if the file is damaged.

    ``current``: raise BadRun also if the records have changed since.
    """
    where = str(folder.path / SCORES)
    raw = folder.scores(current=current)
    try:
        judge = raw["judge"]
        metrics = [metric["component"] for metric in raw["metrics"]]
        scores = [score for metric in raw["metrics"] for score in metric["scores"]]
    except (KeyError, TypeError) as error:
        raise BadRun(f"{where} holds no scores", hint=f"delete it and run ke score {folder.path}") from error
    return RunScores(
        judge=from_json(judge, Component, of=where, error=BadRun),
        metrics=tuple(from_json(metrics, list[Component], of=where, error=BadRun)),
        scores=tuple(from_json(scores, list[MetricScore], of=where, error=BadRun, hint=f"ke score {folder.path}")),
    )
