"""``ke compare A B``: compare recorded runs over the same cases, each with the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from ke_core.app import (
    IMPORTED,
    UNFINISHED,
    Catalog,
    Component,
    RecordedRun,
    RunFolder,
    RunSpec,
    first_difference,
    groups,
    measures_of,
    recorded_run,
    records_of,
    select,
)
from ke_core.plugin import (
    PHASES,
    Answer,
    BadRun,
    Case,
    CaseRecord,
    Failure,
    Metric,
    MetricSpec,
    Outcome,
    Phase,
    Query,
    Verdict,
)
from ke_plugin_analysis.common import SharedScores, shared_scores
from ke_plugin_analysis.observations import VERDICTS_SPEC, Verdicts, observations
from ke_plugin_analysis.pairs import Difference, corrected, differences, paired_styles

SAME = "compare runs that differ only in the editor, the model or their options"


@frozen(kw_only=True)
class ComparedRun:
    """A run in a comparison. ``open`` of its ``planned`` cases have no answers of the edited model yet."""

    path: str
    spec: RunSpec
    planned: int
    open: int


@frozen(kw_only=True)
class ChangedAnswer:
    """A query that is right in only one run. The pairs are of the first and second run."""

    case: str
    query: str
    question: str
    phase: Phase
    styles: tuple[str, str]
    verdicts: tuple[Verdict, Verdict]
    answers: tuple[str, str]

    @property
    def gained(self) -> bool:
        """True if the second run is right."""
        return self.verdicts[1] is Verdict.RIGHT


@frozen(kw_only=True)
class RunComparison:
    """The comparison of ``runs`` with the first one.

    ``differences`` and ``changed`` hold an entry for each further run. ``cases``: the number of compared cases.
    ``specs``: the metrics by name. ``in_all``: scores over the queries that have a value in every run, for metrics that
    exclude queries by conditions.
    """

    runs: tuple[ComparedRun, ...]
    judge: Component
    cases: int
    differences: tuple[tuple[Difference, ...], ...]
    changed: tuple[tuple[ChangedAnswer, ...], ...]
    in_all: tuple[SharedScores, ...]
    specs: Mapping[str, MetricSpec]


@frozen(kw_only=True)
class _Read:
    """A run with its data. ``planned``: the cases of its plan."""

    folder: RunFolder
    known: RecordedRun
    planned: Mapping[str, Case]
    judge: Component
    records: Mapping[str, CaseRecord]

    @property
    def open(self) -> int:
        """The number of planned cases without answers."""
        done = {case for case, record in self.records.items() if record.skipped != UNFINISHED}
        return len(self.planned.keys() - done)


def compare_runs(
    folders: Sequence[RunFolder],
    catalog: Catalog,
    *,
    metrics: Sequence[str] = (),
    judge: str = "",
    shared: bool = False,
    data_dir: str = "",
) -> RunComparison:
    """Pair the queries of the first run with those of each other run.

    ``metrics``: names; the default is the metrics of the first run. ``judge``: as for scoring. ``shared``: compare only
    the common cases. Raises BadRun for runs with different datasets, cases or judges.
    """
    if len({folder.path.resolve() for folder in folders}) < len(folders):
        raise BadRun("a run is listed twice", hint="list each run once")
    first_name = folders[0].spec.dataset.component.name
    for folder in folders[1:]:
        name = folder.spec.dataset.component.name
        if name != first_name:
            raise BadRun(
                f"{folders[0].path} and {folder.path} have different datasets: {first_name} and {name}", hint=SAME
            )
    first, *others = _read(folders, catalog, judge=judge, data_dir=data_dir)
    for other in others:
        _refuse(first, other, shared=shared)
    common = set.intersection(*({*read.planned} for read in (first, *others)))
    measures = [
        (measure.metric, measure.spec)
        for measure in measures_of(first.folder, catalog, first.known.spec, metrics=metrics, judge=judge)
        if isinstance(measure.metric, Metric)
    ]
    order = [case.id for case in first.known.cases if case.id in common]
    every = [[read.records[case] for case in order if case in read.records] for read in (first, *others)]
    tables, changed = [], []
    for own in every[1:]:
        both = (every[0], own)
        table: list[Difference] = []
        for metric, spec in [*measures, (Verdicts(), VERDICTS_SPEC)]:
            one, two = ([*observations(metric, spec.name, records)] for records in both)
            table += differences(spec, one, two, seed=first.folder.spec.seed)
        tables.append(table)
        changed.append(tuple(_changes(*both)))
    return RunComparison(
        runs=tuple(
            ComparedRun(path=str(read.folder.path), spec=read.folder.spec, planned=len(read.planned), open=read.open)
            for read in (first, *others)
        ),
        judge=first.judge,
        cases=len(common),
        differences=tuple(tuple(table) for table in corrected(tables)),
        changed=tuple(changed),
        in_all=tuple(
            made
            for metric, spec in measures
            for made in shared_scores(metric, spec, every, seed=first.folder.spec.seed)
        ),
        specs={spec.name: spec for _metric, spec in [*measures, (Verdicts(), VERDICTS_SPEC)]},
    )


def _read(folders: Sequence[RunFolder], catalog: Catalog, *, judge: str, data_dir: str) -> Iterator[_Read]:
    """Yield each run with its cases. Each dataset is read once."""
    cache: list[tuple[object, RecordedRun]] = []
    for folder in folders:
        of = folder.spec.dataset
        known = next((found for key, found in cache if key == of), None)
        if known is None:
            known = recorded_run(folder, catalog, data_dir)
            cache.append((of, known))
        component, records = records_of(folder, known.cases, judge=judge)
        by_case = {record.case.id: record for record in records}
        yield _Read(
            folder=folder, known=known, planned=_planned(folder, known, by_case), judge=component, records=by_case
        )


def _planned(folder: RunFolder, known: RecordedRun, records: Mapping[str, CaseRecord]) -> dict[str, Case]:
    """Return the planned cases; for an imported run the cases that its file answers."""
    if folder.spec.model.source == IMPORTED:
        return {case: record.case for case, record in records.items() if record.skipped is None}
    plan, seed = folder.spec.plan, folder.spec.seed
    made = groups(select([*known.cases], plan, seed), plan, seed, known.dataset.split)
    return {case.id: case for group in made for case in group.cases}


def _refuse(first: _Read, other: _Read, *, shared: bool) -> None:
    """Raise BadRun if the two cannot be paired."""
    names = f"{first.folder.path} and {other.folder.path}"
    if first.judge != other.judge:
        raise BadRun(
            f"{names} were judged differently: {first_difference(first.judge, other.judge)}",
            hint=f"judge both alike: ke judge {other.folder.path}",
        )
    only = [{*one.planned} - {*two.planned} for one, two in ((first, other), (other, first))]
    if any(only) and not shared:
        raise BadRun(
            f"{names} are over different cases: {len(only[0])} and {len(only[1])} are in only one of them, "
            f"such as case {min(next(filter(None, only)), key=lambda case: (len(case), case))}",
            hint=f"--shared compares the {len(first.planned.keys() & other.planned.keys())} common cases; or {SAME}",
        )
    if not first.planned.keys() & other.planned.keys():
        raise BadRun(f"{names} have no case in common", hint=SAME)
    if first.known is not other.known:
        theirs = {case.id: case for case in other.known.cases}
        for case in first.known.cases:
            if case.id in first.planned and case.id in other.planned and theirs[case.id] != case:
                raise BadRun(f"case {case.id} is not the same in {names}", hint=SAME)


def _changes(first: Iterable[CaseRecord], second: Iterable[CaseRecord]) -> Iterator[ChangedAnswer]:
    """Yield the queries that are right in only one run, case by case."""
    others = {record.case.id: record for record in second}
    for record in first:
        other = others.get(record.case.id)
        if other is None:
            continue
        texts = {query.id: query.texts[0] for query in _queries(record.case)}
        for phase in PHASES:
            for styles in paired_styles(record.styles(phase), other.styles(phase)):
                for query, text in texts.items():
                    one = record.outcomes.get((phase, styles[0], query))
                    two = other.outcomes.get((phase, styles[1], query))
                    if one is None or two is None or not _differ(one, two):
                        continue
                    yield ChangedAnswer(
                        case=record.case.id,
                        query=query,
                        question=text,
                        phase=phase,
                        styles=styles,
                        verdicts=(one.judgment.verdict, two.judgment.verdict),
                        answers=(_text(one), _text(two)),
                    )


def _queries(case: Case) -> Iterator[Query]:
    for probe in case.probes:
        yield from probe.queries
        yield from probe.given


def _differ(one: Outcome, two: Outcome) -> bool:
    """True if only one is right. An unsure verdict is no change."""
    verdicts = (one.judgment.verdict, two.judgment.verdict)
    return Verdict.UNSURE not in verdicts and (verdicts[0] is Verdict.RIGHT) != (verdicts[1] is Verdict.RIGHT)


def _text(outcome: Outcome) -> str:
    reply = outcome.reply
    if isinstance(reply, Failure):
        return f"{reply.error}: {reply.message}"
    return reply.text if isinstance(reply, Answer) else ""
