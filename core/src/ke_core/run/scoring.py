"""Scores from records alone: no model, no torch, and the same bytes whenever they are computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from ke_core.data.codec import to_json
from ke_core.data.queries import Case
from ke_core.data.results import CaseRecord, MetricScore, ModelRecord
from ke_core.data.runspec import SCHEMA, Component, Plan
from ke_core.results.aggregate import BUCKET, TESTED, Population, Values
from ke_core.results.columns import Names
from ke_core.results.folder import RunFolder
from ke_core.results.index import Index
from ke_core.run.job import Measure
from ke_core.run.steps import Steps
from ke_core.run.tables import Counts, case_lines, judge_of, models, read

TRAINED = "train only"
"""The bucket of cases that are edited and in no published score."""


def records_of(folder: RunFolder, cases: Iterable[Case], *, judge: str = "") -> tuple[Component, list[CaseRecord]]:
    """The judge (``judge``, else the one that judged last) and every case on record as metrics see it.

    Raises BadRun if the run has not been judged.
    """
    index = read(folder)
    key = judge_of(index, folder, judge)
    lines = case_lines(index, _tagged(cases, folder.spec.plan), key, folder)
    return index.judges[key], [own.last() for own in lines if own.within]


def score_run(
    folder: RunFolder, cases: Iterable[Case], measures: Sequence[Measure], *, judge: str = ""
) -> list[MetricScore]:
    """Compute every metric and write ``scores.json``: the scores, the metrics and the judge they rest on.

    ``judge`` names the judge; without it, the one that judged last. Also written: how answers ended, by
    phase and style (``unparsed``, ``failure`` ... are wrong ones, in n), what they took, and why cases were skipped.
    Raises BadRun if the run has not been judged. Cases are read one after another, and none is kept.
    """
    index = read(folder)
    key = judge_of(index, folder, judge)
    counts, scores = _scores(folder, index, cases, measures, key)
    folder.write_scores(
        {
            "schema": SCHEMA,
            "run": folder.id,
            "judge": to_json(index.judges[key]),
            "metrics": [
                {"component": to_json(measure.component), "scores": to_json(own, list[MetricScore])}
                for measure, own in zip(measures, scores, strict=True)
            ],
            "outcomes": counts.endings(),
            "costs": counts.costs(),
            "skipped": dict(sorted(_reasons(index).items())),
        }
    )
    return [score for own in scores for score in own]


def _scores(
    folder: RunFolder, index: Index, cases: Iterable[Case], measures: Sequence[Measure], judge: str
) -> tuple[Counts, list[list[MetricScore]]]:
    """Those of each measure: of the whole run, in which a case counts as it was answered last; of a sequential one,
    whose cases are asked again and again, also step by step.
    """
    plan, seed = folder.spec.plan, folder.spec.seed
    names, counts, population = Names(), Counts(), Population()
    whole = [Values.of(measure.metric, measure.spec, names=names) for measure in measures]
    steps = Steps.of(index, measures, names) if plan.sequential else None
    for own in case_lines(index, _tagged(cases, plan), judge, folder):
        for line in own.lines:
            counts.add(line)
        if own.within:
            record = own.last()
            population.add(record)
            for values in whole:
                values.add(record)
            if steps:
                steps.add(own)
    found = []
    for number, (measure, values) in enumerate(zip(measures, whole, strict=True)):
        seen = models(index, measure, counts.memory, sequential=plan.sequential)
        values.add_models(_last([*seen]) if plan.sequential else seen)
        by = tuple(dict.fromkeys((*population.tags, *measure.spec.by)))
        own_scores = [*values.scores(by, shares=population.shares(), seed=seed)]
        found.append([*own_scores, *(steps.scores(number, measure, counts, seed=seed) if steps else ())])
    return counts, found


def _last(records: Sequence[ModelRecord]) -> Sequence[ModelRecord]:
    """The unedited model, and the edited one as a sequential run left it: steps on the way are one growing model.

    All of them for a metric that asks nothing, and reads what each step took.
    """
    if not any(record.replies for record in records):
        return records
    return [record for record in records if record.phase == "before" or record is records[-1]]


def _tagged(cases: Iterable[Case], plan: Plan) -> Iterator[Case]:
    """A tag ``part-K`` says which bucket of published tables a case is in when K are edited, as these are."""
    for case in cases:
        bucket = case.tags.get(f"part-{plan.size}") if plan.protocol == "sample" else None
        own = {BUCKET: bucket, TESTED: "no" if bucket == TRAINED else "yes"} if bucket else {}
        yield evolve(case, tags={**case.tags, **own}) if own else case


def _reasons(index: Index) -> Counter[str]:
    """Why cases were skipped, one a case."""
    return Counter(reason for batch in index.batches.values() for reason in batch.skipped.values())
