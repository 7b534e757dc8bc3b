"""Compute scores from the records only, without a model. Computed again, they have the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from attrs import define, evolve, field

from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import reject_unused
from ke_core.results.aggregate import BUCKET, TESTED, Population, Values
from ke_core.results.columns import Names
from ke_core.results.folder import RunFolder
from ke_core.results.index import Index
from ke_core.runner.judging import metrics_of, resolve_judge
from ke_core.runner.probing import asks_of
from ke_core.runner.resolve import Options, ResolvedComponent, resolve_component
from ke_core.runner.run import Measure
from ke_core.runner.steps import UNEDITED_BATCH
from ke_core.runner.tables import CaseLines, Counts, case_lines, judge_of, models, read
from ke_core.spec.codec import to_json
from ke_core.spec.errors import BadConfig
from ke_core.spec.protocols import Metric
from ke_core.spec.queries import Case
from ke_core.spec.results import CaseRecord, MetricScore, ModelRecord
from ke_core.spec.runspec import SCHEMA, Component, Plan
from ke_core.spec.specs import DatasetSpec, JudgeSpec, MetricSpec

TRAINED = "train only"
"""The bucket of cases that are edited and not part of published scores."""


def records_of(folder: RunFolder, cases: Iterable[Case], *, judge: str = "") -> tuple[Component, list[CaseRecord]]:
    """Return the judge (``judge``, else the last one) and every recorded case as metrics see it.

    Raises BadRun if the run has not been judged.
    """
    index = read(folder)
    key = judge_of(index, folder, judge)
    lines = case_lines(index, _tagged(cases, folder.spec.plan), key, folder)
    return index.judges[key], [own.last() for own in lines if own.within]


def score_run(
    folder: RunFolder, cases: Iterable[Case], measures: Sequence[Measure], *, judge: str = ""
) -> list[MetricScore]:
    """Compute every metric and write ``scores.json``: the scores, the metrics and the judge.

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


EDITS_MADE = "edits made"
"""The tag of scores of one step of sequential editing."""
EDITS_SINCE = "edits made since"
"""The tag of scores of cases after whose own edits that many others were made: a forgetting curve."""


@define
class Steps:
    """Of each step the values of the cases that it asked; ``_made`` are the edits that were in the model by then.

    ``_at``: case to how many edits were in the model with its own. ``_ages``: how many were made since, of any case.
    """

    index: Index
    _values: list[Values]
    _made: dict[str, int]
    _at: dict[str, int]
    _population: Population = field(factory=Population)
    _edited: Population = field(factory=Population)
    _ages: set[int] = field(factory=set)

    @classmethod
    def of(cls, index: Index, measures: Sequence[Measure], names: Names) -> Steps:
        """None of them read so far."""
        made: dict[str, int] = {}
        at: dict[str, int] = {}
        edits = 0
        asked = {batch for batch, phase in index.asked if phase == "after"}
        for batch in index.batches.values():
            edits += 0 if batch.failed else batch.edits
            for case in (*batch.cases, *batch.unasked):
                at.setdefault(case, edits)
            if asked & {UNEDITED_BATCH, batch.batch}:
                # A step that added nothing has the model of the one before: it was asked last.
                made = {name: number for name, number in made.items() if number != edits} | {batch.batch: edits}
        values = [Values.of(each.metric, each.spec, by=(EDITS_SINCE,), names=names) for each in measures]
        return cls(index, values, made, at)

    def add(self, own: CaseLines) -> None:
        """What was asked of a case, step by step."""
        for record in own.steps():
            if record.batch not in self._made:
                continue
            tags = {}
            self._population.add(record)
            if record.edited and record.skipped is None:
                age = self._made[record.batch] - self._at[record.case.id]
                tags = {EDITS_SINCE: str(age)}
                self._ages.add(age)
                self._edited.add(record)
            for values in self._values:
                values.add(record, tags)

    def scores(self, number: int, measure: Measure, counts: Counts, *, seed: int) -> Iterator[MetricScore]:
        """Of the metric of that number: of all cases of each step, told apart by how many edits were in the model;
        then over all steps by how many edits were made after a case's own: whether earlier edits last.

        There are none of the latter where every case was asked right after its own edits alone.
        """
        values = self._values[number]
        cases = values.columns.by_batch()
        values.add_models(models(self.index, measure, counts.memory, sequential=True))
        rows = values.columns.by_batch()
        for batch, made in self._made.items():
            shares = self._population.shares(batch)
            for score in values.scores((), shares=shares, seed=seed, rows=rows.get(batch, ())):
                if score.phase == "after":
                    yield evolve(score, tags={EDITS_MADE: str(made)})
        if len(self._ages) > 1 and isinstance(measure.metric, Metric):
            every = chain.from_iterable(cases.get(batch, ()) for batch in self._made)
            aged = values.columns.tagged(EDITS_SINCE, every)
            found = values.scores((EDITS_SINCE,), shares=self._edited.shares(), seed=seed, rows=aged)
            yield from (score for score in found if EDITS_SINCE in score.tags and score.phase == "after")


NO_OPTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def judge_and_metrics(
    catalog: Catalog, dataset: DatasetSpec, options: Options, *, judge: str = "", metrics: Sequence[str] = ()
) -> tuple[ResolvedComponent[JudgeSpec], tuple[ResolvedComponent[MetricSpec], ...]]:
    """Return the judge and the metrics of a new run. Raises BadConfig for a judge that needs a model."""
    judging = dataset_judge(catalog, dataset, judge, options)
    name = judging.spec.name
    if judging.spec.needs_model:
        raise BadConfig(
            f"judge {name} asks a model of its own, and comes after the run",
            hint=f"choose another with --judge now, then ke judge RUN --judge {name} --judge-model MODEL",
        )
    return judging, dataset_metrics(catalog, dataset, metrics, options)


def dataset_judge(catalog: Catalog, dataset: DatasetSpec, name: str, options: Options) -> ResolvedComponent[JudgeSpec]:
    """Return the judge called ``name``, or the dataset's default judge."""
    if not (name or dataset.judge):
        raise BadConfig(f"dataset {dataset.name} names no judge", hint="choose one with --judge")
    return resolve_judge(catalog, name or dataset.judge, options)


def dataset_metrics(
    catalog: Catalog, dataset: DatasetSpec, names: Sequence[str], options: Options
) -> tuple[ResolvedComponent[MetricSpec], ...]:
    """Return the metrics called ``names``, or the dataset's default metrics."""
    if not (names or dataset.metrics):
        raise BadConfig(f"dataset {dataset.name} names no metric", hint="choose one with --metric")
    return tuple(
        resolve_component(catalog, "metric", name, options) for name in dict.fromkeys(names or dataset.metrics)
    )


def build_metrics(chosen: Sequence[ResolvedComponent[MetricSpec]]) -> tuple[Measure, ...]:
    """Build the chosen metrics."""
    return tuple(
        Measure(component=each.component, spec=each.spec, metric=each.build(), asks=asks_of(each)) for each in chosen
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
