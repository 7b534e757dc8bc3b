"""What was measured of a run, as its ``scores.json`` holds it."""

from __future__ import annotations

from ke_core.data.codec import from_json
from ke_core.data.results import Score
from ke_core.data.runspec import Component
from ke_core.errors import BadRun
from ke_core.results.folder import SCORES, RunFolder


def scores_of(folder: RunFolder) -> list[Score]:
    """Every score of every metric. Raises BadRun if the run has none, or they are not as ke writes them."""
    where = folder.path / SCORES
    try:
        scores = [score for metric in folder.scores()["metrics"] for score in metric["scores"]]
    except (KeyError, TypeError) as error:
        raise BadRun(f"{where} holds no scores", hint=f"delete it and run ke score {folder.path}") from error
    return from_json(scores, list[Score], of=str(where), error=BadRun)


def judge_of(folder: RunFolder) -> Component:
    """The judge that the scores rest on. Raises BadRun as ``scores_of`` does."""
    where = folder.path / SCORES
    try:
        raw = folder.scores()["judge"]
    except KeyError as error:
        raise BadRun(f"{where} holds no scores", hint=f"delete it and run ke score {folder.path}") from error
    return from_json(raw, Component, of=str(where), error=BadRun)
