"""Scores from records alone: no model, no torch, and the same bytes whenever they are computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from ke_core.data.codec import to_json
from ke_core.data.queries import Case
from ke_core.data.results import CaseRecord, Score
from ke_core.data.runspec import SCHEMA, Component, Plan
from ke_core.protocols import Metric
from ke_core.results.aggregate import BUCKET, TESTED, aggregate
from ke_core.results.folder import RunFolder
from ke_core.run.job import Measure
from ke_core.run.tables import Judgements, Tables, case_records, read

EDITS_MADE = "edits made"
"""The tag of scores of one step of sequential editing."""
EDITS_SINCE = "edits made since"
"""The tag of scores of cases after whose own edits that many others were made: a forgetting curve."""
TRAINED = "train only"
"""The bucket of cases that are edited and in no published score."""


def records_of(folder: RunFolder, cases: Iterable[Case], *, judge: str = "") -> tuple[Component, list[CaseRecord]]:
    """The judge (``judge``, else the one that judged last) and every case on record as metrics see it.

    Raises BadRun if the run has not been judged.
    """
    tables = read(folder)
    component, judgements = tables.verdicts(folder, judge)
    return component, list(case_records(tables, _tagged(cases, folder.spec.plan), judgements, folder))


def score_run(folder: RunFolder, cases: Iterable[Case], measures: Sequence[Measure], *, judge: str = "") -> list[Score]:
    """Compute every metric and write ``scores.json``: the scores, the metrics and the judge they rest on.

    ``judge`` names the judge; without it, the one that judged last. Also written: how answers ended, by
    phase and style (``unparsed``, ``failure`` ... are wrong ones, in n), what they took, and why cases were skipped.
    Raises BadRun if the run has not been judged.
    """
    tables = read(folder)
    component, judgements = tables.verdicts(folder, judge)
    by_id = _tagged(cases, folder.spec.plan)
    views = _views(tables, by_id, judgements, folder)
    scored = [
        (
            measure,
            [
                *(score for view in views for score in _scores(view, measure, seed=folder.spec.seed)),
                *_forgotten(views, measure, seed=folder.spec.seed),
            ],
        )
        for measure in measures
    ]
    folder.write_scores(
        {
            "schema": SCHEMA,
            "run": folder.id,
            "judge": to_json(component),
            "metrics": [
                {"component": to_json(measure.component), "scores": to_json(scores, list[Score])}
                for measure, scores in scored
            ],
            "outcomes": tables.endings(),
            "costs": tables.costs(),
            "skipped": dict(sorted(Counter(tables.reasons()).items())),
        }
    )
    return [score for _measure, scores in scored for score in scores]


@frozen(kw_only=True)
class _View:
    """Records that are scored together, and the models they are of. ``tags``: which part of the run that is.

    ``since``: by case, how many edits were made after its own.
    """

    records: Sequence[CaseRecord]
    tables: Tables
    tags: Mapping[str, str]
    since: Mapping[str, int]


def _tagged(cases: Iterable[Case], plan: Plan) -> dict[str, Case]:
    """By id. A tag ``part-K`` says which bucket of published tables a case is in when K are edited, as these are."""
    found = {}
    for case in cases:
        bucket = case.tags.get(f"part-{plan.size}") if plan.protocol == "sample" else None
        own = {BUCKET: bucket, TESTED: "no" if bucket == TRAINED else "yes"} if bucket else {}
        found[case.id] = evolve(case, tags={**case.tags, **own}) if own else case
    return found


def _views(tables: Tables, cases: Mapping[str, Case], judgements: Judgements, folder: RunFolder) -> list[_View]:
    """The whole run; of a sequential one, whose cases are asked again and again, also each step by itself.

    In the whole a case counts as it was answered last.
    """
    whole = list(case_records(tables, cases, judgements, folder))
    found = [_View(records=whole, tables=tables, tags={}, since={})]
    made = 0
    edited: dict[str, int] = {}  # case to how many edits were in the model with its own
    for batch in tables.batches.values() if folder.spec.plan.sequential else ():
        made += 0 if batch.failed else batch.edits
        for case in (*batch.cases, *batch.unasked):
            edited.setdefault(case, made)
        own = tables.of(batch.batch)
        records = list(case_records(own, cases, judgements, folder))
        if any(phase == "after" for _step, _batch, _case, phase, _style in own.replies):
            since = {case: made - at for case, at in edited.items()}
            found.append(_View(records=records, tables=own, tags={EDITS_MADE: str(made)}, since=since))
    return found


def _scores(view: _View, measure: Measure, *, seed: int) -> Iterator[Score]:
    """All scores of a view; of one step those of all its cases, told apart by how many edits were in the model."""
    models = view.tables.models(measure)
    for score in aggregate(measure.metric, measure.spec, view.records, models=models, seed=seed):
        if not view.tags:
            yield score
        elif not score.tags and score.phase == "after":
            yield evolve(score, tags=view.tags)


def _forgotten(views: Sequence[_View], measure: Measure, *, seed: int) -> Iterator[Score]:
    """Over all steps, scores by how many edits were made after a case's own: whether earlier edits last.

    None where a run has one step, or every case was asked right after its own edits alone.
    """
    aged = [
        evolve(record, case=evolve(record.case, tags={EDITS_SINCE: str(view.since[record.case.id])}))
        for view in views
        if view.tags
        for record in view.records
        if record.edited and record.skipped is None
    ]
    if len({record.case.tags[EDITS_SINCE] for record in aged}) > 1 and isinstance(measure.metric, Metric):
        for score in aggregate(measure.metric, evolve(measure.spec, by=(EDITS_SINCE,)), aged, seed=seed):
            if EDITS_SINCE in score.tags and score.phase == "after":
                yield score
