"""What was measured of a run, as its ``scores.json`` holds it."""

from __future__ import annotations

from attrs import frozen

from ke_core.data.codec import from_json
from ke_core.data.results import MetricScore
from ke_core.data.runspec import Component
from ke_core.errors import BadRun
from ke_core.results.folder import SCORES, RunFolder


@frozen(kw_only=True)
class RunScores:
    """The scores of a run, the metrics that they are of, by name, and the judge that they rest on."""

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
