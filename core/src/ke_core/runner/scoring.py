"""Compute scores from the records only, without a model. The same records give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from attrs import define, evolve, field

from ke_core.plugins.catalog import Catalog
from ke_core.plugins.options import reject_unused
from ke_core.results.aggregate import BUCKET, TESTED, Population, Values
from ke_core.results.columns import Names
from ke_core.results.folder import SCORES, RunFolder
from ke_core.results.index import Index
from ke_core.results.load import read_scores
from ke_core.runner.judging import metrics_of
from ke_core.runner.resolve import Options, ResolvedComponent, choose_again, resolve_component
from ke_core.runner.run import Measure
from ke_core.runner.steps import UNEDITED_BATCH
from ke_core.runner.tables import CaseLines, case_lines, highest, judge_of, models, read
from ke_core.spec.codec import digest, to_json
from ke_core.spec.errors import BadConfig, PluginBroken
from ke_core.spec.protocols import Metric
from ke_core.spec.queries import Case
from ke_core.spec.requests import EditorRequest, Likelihood
from ke_core.spec.results import CaseRecord, MetricScore, ModelRecord, Peak
from ke_core.spec.runspec import SCHEMA, Component, DataRef, Plan
from ke_core.spec.specs import DatasetSpec, JudgeSpec, MetricSpec

TRAINED = "train only"
"""The bucket of cases that are edited and not part of published scores."""


def records_of(folder: RunFolder, cases: Iterable[Case], *, judge: str = "") -> tuple[Component, Iterator[CaseRecord]]:
    """Return the judge (``judge``, else the last one) and an iterator over the recorded cases as metrics see them.

    Cases are read one after another, in the order of ``cases``. Raises BadRun if the run has not been judged.
    """
    index = read(folder)
    key = judge_of(index, folder, judge)
    lines = case_lines(index, _tagged(cases, folder.spec.plan), key, folder)
    return index.judges[key], (own.last() for own in lines if own.within)


def score_run(
    folder: RunFolder, cases: Iterable[Case], measures: Sequence[Measure], *, judge: str = ""
) -> list[MetricScore]:
    """Compute every metric and write ``scores.json``: the scores, the metrics and the judge.

    ``judge`` is the name of the judge, by default the last one. The file also holds the outcomes of the answers by
    phase and style (``unparsed``, ``failure`` ... count as wrong), their cost, and why cases were skipped. Cases are
    read one after another, and none is kept in memory. Raises BadRun if the run has not been judged.
    """
    index = read(folder)
    key = judge_of(index, folder, judge)
    scores = _scores(folder, index, cases, measures, key)
    folder.write_scores(
        {
            "schema": SCHEMA,
            "run": folder.id,
            "judge": to_json(index.judges[key]),
            "metrics": [
                {"component": to_json(measure.component), "scores": to_json(own, list[MetricScore])}
                for measure, own in zip(measures, scores, strict=True)
            ],
        }
    )
    return [score for own in scores for score in own]


def _scores(
    folder: RunFolder, index: Index, cases: Iterable[Case], measures: Sequence[Measure], judge: str
) -> list[list[MetricScore]]:
    """Return the counts of the replies and the scores of each measure.

    The last answers of a case count. A sequential run asks cases repeatedly, so it also has scores of each step.
    """
    plan, seed = folder.spec.plan, folder.spec.seed
    names, memory, population = Names(), dict[str, Peak](), Population()
    whole = [Values.of(each.metric, each.spec, names=names, sequential=plan.sequential) for each in measures]
    steps = Steps.of(index, measures, names, new=plan.eval_set == "new") if plan.sequential else None
    for own in case_lines(index, _tagged(cases, plan), judge, folder):
        for line in own.lines:
            memory[line.batch] = highest(memory.get(line.batch, Peak()), line.memory)
        if own.within:
            record = own.last()
            population.add(record)
            for values in whole:
                values.add(record)
            if steps:
                steps.add(own)
    found = []
    for number, (measure, values) in enumerate(zip(measures, whole, strict=True)):
        seen = models(index, measure, memory, sequential=plan.sequential)
        values.add_models(_last([*seen]) if plan.sequential else seen)
        by = tuple(dict.fromkeys((*population.tags, *measure.spec.by)))
        own_scores = [*values.scores(by, shares=population.shares(), seed=seed)]
        found.append([*own_scores, *(steps.scores(number, measure, memory, seed=seed) if steps else ())])
    return found


def _last(records: Sequence[ModelRecord]) -> Sequence[ModelRecord]:
    """Return the unedited model and the last edited model of a sequential run, whose steps are one growing model.

    A metric without requests of its own reads the cost of each step, so it gets all of them.
    """
    if not any(record.replies for record in records):
        return records
    return [record for record in records if record.phase == "before" or record is records[-1]]


def _tagged(cases: Iterable[Case], plan: Plan) -> Iterator[Case]:
    """Yield the cases with the tag of their bucket in published tables: the tag ``part-K`` if K cases are edited."""
    for case in cases:
        bucket = case.tags.get(f"part-{plan.size}") if plan.protocol == "sample" else None
        own = {BUCKET: bucket, TESTED: "no" if bucket == TRAINED else "yes"} if bucket else {}
        yield evolve(case, tags={**case.tags, **own}) if own else case


EDITS_MADE = "edits made"
"""The tag of the scores of one step: the number of edits so far. An edit that a later step repeats counts again."""
EDITS_SINCE = "edits made since"
"""The tag of a forgetting curve: the number of edits after a case's own edits, counted as in ``EDITS_MADE``."""


@define
class Steps:
    """The values of the cases that each step asked.

    ``_made``: the number of edits in the model at each step. ``_at``: the number of edits in the model when those of a
    case were applied. ``_ages``: the numbers of later edits that occur.
    """

    index: Index
    _values: list[Values]
    _made: dict[str, int]
    _at: dict[str, int]
    _ages: set[int] = field(factory=set)

    @classmethod
    def of(cls, index: Index, measures: Sequence[Measure], names: Names, *, new: bool) -> Steps:
        """Create it before any case is added. ``new``: each step asks other cases."""
        made: dict[str, int] = {}
        at: dict[str, int] = {}
        edits = 0
        asked = {batch for batch, phase in index.asked if phase == "after"}
        for batch in index.batches.values():
            edits += 0 if batch.failed else batch.edits
            for case in (*batch.cases, *batch.unasked):
                at.setdefault(case, edits)
            if asked & {UNEDITED_BATCH, batch.batch}:
                # A step without edits of its own has the earlier model. It replaces that step if it asks its cases.
                made = {name: number for name, number in made.items() if new or number != edits} | {batch.batch: edits}
        values = [Values.of(own.metric, own.spec, by=(EDITS_SINCE,), names=names, sequential=True) for own in measures]
        return cls(index, values, made, at)

    def add(self, own: CaseLines) -> None:
        """Add the replies of a case, step by step."""
        for record in own.steps():
            if record.batch not in self._made:
                continue
            tags = {}
            if record.edited and record.skipped is None:
                age = self._made[record.batch] - self._at[record.case.id]
                tags = {EDITS_SINCE: str(age)}
                self._ages.add(age)
            for values in self._values:
                values.add(record, tags)

    def scores(self, number: int, measure: Measure, memory: Mapping[str, Peak], *, seed: int) -> Iterator[MetricScore]:
        """Yield the scores of one metric: of each step, then over all steps by the number of later edits.

        The latter show whether earlier edits last. They are omitted if every case was asked only right after its own
        edits. Steps with equally many edits have one score: of all their cases, and of the last step's model.
        """
        values = self._values[number]
        cases = values.columns.by_batch()
        values.add_models(models(self.index, measure, memory, sequential=True))
        rows = values.columns.by_batch()
        batches: dict[int, list[str]] = {}
        for batch, made in self._made.items():
            batches.setdefault(made, []).append(batch)
        for made, (*earlier, last) in batches.items():
            own = chain(*(cases.get(batch, ()) for batch in earlier), rows.get(last, ()))
            for score in values.scores((), seed=seed, rows=own):
                if score.phase == "after":
                    yield evolve(score, tags={EDITS_MADE: str(made)})
        if len(self._ages) > 1 and isinstance(measure.metric, Metric):
            every = chain.from_iterable(cases.get(batch, ()) for batch in self._made)
            aged = values.columns.tagged(EDITS_SINCE, every)
            found = values.scores((EDITS_SINCE,), seed=seed, rows=aged)
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
    return resolve_component(catalog, "judge", name or dataset.judge, options)


def dataset_metrics(
    catalog: Catalog, dataset: DatasetSpec, names: Sequence[str], options: Options
) -> tuple[ResolvedComponent[MetricSpec], ...]:
    """Return the metrics called ``names``, or the dataset's default metrics."""
    if not (names or dataset.metrics):
        raise BadConfig(f"dataset {dataset.name} names no metric", hint="choose one with --metric")
    chosen = dict.fromkeys(names or dataset.metrics)
    return tuple(resolve_component(catalog, "metric", name, options) for name in chosen)


def build_metrics(chosen: Sequence[ResolvedComponent[MetricSpec]]) -> tuple[Measure, ...]:
    """Build the chosen metrics."""
    return tuple(
        Measure(component=each.component, spec=each.spec, metric=each.build(), requests=requests_of(each))
        for each in chosen
    )


def requests_of(chosen: ResolvedComponent[MetricSpec]) -> tuple[EditorRequest, ...]:
    """Return the metric's requests to every model. Raises PluginBroken if two of them have the same query."""
    requests = chosen.spec.requests(chosen.config)
    names = [request.query for request in requests]
    if len(set(names)) < len(names) or "" in names:
        raise PluginBroken(
            f"metric {chosen.spec.name} has requests without a query of their own",
            hint=f"tell the author of {chosen.spec.name}",
        )
    return requests


def asked_by(chosen: ResolvedComponent[MetricSpec], cases: Iterable[Case]) -> DataRef | None:
    """Return the specification of the metric's own requests: the metric, and the SHA-256 of the requests.

    They are its requests to every model, and the probes that it has added to ``cases``. The metric's code is not part
    of it: it also computes scores, and a run may be scored with newer code.
    """
    content = [_content(request) for request in requests_of(chosen)]
    if chosen.spec.probes is not None:
        name = chosen.spec.name
        content += [to_json(probe) for case in cases for probe in case.probes if probe.metric == name]
    return DataRef(component=evolve(chosen.component, code=""), sha256=digest(content)) if content else None


def _content(request: EditorRequest) -> object:
    kind = "likelihood" if isinstance(request, Likelihood) else "question"
    return {"kind": kind, **to_json(request), "hidden": sorted(request.hidden)}


def measures_of(
    folder: RunFolder,
    catalog: Catalog,
    dataset: DatasetSpec,
    *,
    metrics: Sequence[str] = (),
    judge: str = "",
    options: Options = NO_OPTIONS,
) -> tuple[Measure, ...]:
    """Return the metrics for scoring a recorded run.

    Without ``metrics``: those of ``judge``, else those of the last scores unless they belong to another judge, else
    the dataset's and those with requests. A metric keeps its recorded options, unless ``options`` has others for it.
    """
    last: dict[str, Component] = {}
    if (folder.path / SCORES).exists():
        scored = read_scores(folder, current=False)
        if judge in ("", scored.judge.name) or not metrics_of(catalog, scored.judge.name):
            last = {metric.name: metric for metric in scored.metrics}
    recorded = last | {request.component.name: request.component for request in folder.spec.requests}
    names = tuple(metrics) or metrics_of(catalog, judge) or tuple(last) or (*dataset.metrics, *recorded)
    chosen = dataset_metrics(catalog, dataset, names, options)
    reject_unused(options, [each.spec for each in chosen])
    return build_metrics(
        [
            choose_again(catalog, "metric", recorded[one.spec.name], files=folder.files)
            if one.spec.name in recorded and not options.get(one.spec.prefix)
            else one
            for one in chosen
        ]
    )
