"""``ke compare A B``: compare recorded runs over the same cases, each with the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from ke_core.app import Catalog, Component, RunFolder, RunSpec, count_noun, first_difference, measures_of, option_text
from ke_core.plugin import BadRun, CaseRecord, Metric, MetricSpec, digest, to_json
from ke_plugin_analysis.changes import ChangedAnswers
from ke_plugin_analysis.common import SharedScores, shared_scores
from ke_plugin_analysis.observations import VERDICTS_SPEC, Observations, Verdicts
from ke_plugin_analysis.opening import OpenRun, open_runs
from ke_plugin_analysis.pairs import Difference, corrected, differences

SAME = "compare runs that differ only in the editor, the model or their options"


@frozen(kw_only=True)
class ComparedRun:
    """A run in a comparison. ``open`` of its ``planned`` cases have no answers of the edited model yet."""

    path: str
    spec: RunSpec
    planned: int
    open: int


@frozen(kw_only=True)
class RunComparison:
    """The comparison of ``runs`` with the first one.

    ``differences``, ``changed`` and ``unpaired`` hold an entry for each further run. ``cases``: the number of common
    cases. ``unpaired``: the number of those that only one of the two runs edited, the other has as controls.
    ``specs``: the metrics by name. ``in_all``: scores over the queries that have a value in every run, for metrics that
    exclude queries by conditions.
    """

    runs: tuple[ComparedRun, ...]
    judge: Component
    cases: int
    differences: tuple[tuple[Difference, ...], ...]
    changed: tuple[ChangedAnswers, ...]
    unpaired: tuple[int, ...]
    in_all: tuple[SharedScores, ...]
    specs: Mapping[str, MetricSpec]


def compare_runs(
    folders: Sequence[RunFolder],
    catalog: Catalog,
    *,
    metrics: Sequence[str] = (),
    judge: str = "",
    shared: bool = False,
    listing: bool = False,
    data_dir: str = "",
) -> RunComparison:
    """Pair the queries of the first run with those of each other run.

    ``metrics``: names; by default those of the first run's scores, or of ``judge``. ``judge``: as for scoring.
    ``shared``: compare only the common cases. ``listing``: list the changed answers. Cases are read one after another,
    and none is kept in memory. Raises BadRun for a single run, and for runs with different datasets, cases or judges.
    """
    if len(folders) < 2:
        raise BadRun("a comparison needs two or more runs", hint="the first one is compared with each other one")
    if len({folder.path.resolve() for folder in folders}) < len(folders):
        raise BadRun("a run is listed twice", hint="list each run once")
    first_name = folders[0].spec.dataset.component.name
    for folder in folders[1:]:
        name = folder.spec.dataset.component.name
        if name != first_name:
            raise BadRun(
                f"{folders[0].path} and {folder.path} have different datasets: {first_name} and {name}", hint=SAME
            )
    first, *others = runs = open_runs(folders, catalog, judge=judge, data_dir=data_dir)
    for other in others:
        _refuse(first, other, shared=shared)
    common = set.intersection(*({*run.planned} for run in runs))
    order = {case: place for place, case in enumerate(case for case in first.order if case in common)}
    chosen = measures_of(first.folder, catalog, first.known.spec, metrics=metrics, judge=judge)
    measures = [(one.metric, one.spec) for one in chosen if isinstance(one.metric, Metric)]
    seed, sequential = first.folder.spec.seed, [run.folder.spec.plan.sequential for run in runs]
    found = compare_records(
        [run.first(order) for run in runs], [*measures, (Verdicts(), VERDICTS_SPEC)], order,
        seed=seed, listing=listing, sequential=sequential,
    )  # fmt: skip
    return RunComparison(
        runs=tuple(
            ComparedRun(path=str(run.folder.path), spec=run.folder.spec, planned=len(run.planned), open=run.open)
            for run in runs
        ),
        judge=first.judge,
        cases=len(common),
        differences=tuple(tuple(table) for table in corrected(found.differences)),
        changed=found.changed,
        unpaired=found.unpaired,
        in_all=tuple(
            made
            for metric, spec in measures
            for made in shared_scores(
                metric, spec, [run.within(order) for run in runs], seed=seed, sequential=sequential
            )
        ),
        specs={spec.name: spec for _metric, spec in [*measures, (Verdicts(), VERDICTS_SPEC)]},
    )


@frozen(kw_only=True)
class PairedRecords:
    """The differences of each further run from the first one, its changed answers, and its unpaired cases."""

    differences: tuple[list[Difference], ...]
    changed: tuple[ChangedAnswers, ...]
    unpaired: tuple[int, ...]


def compare_records(
    runs: Sequence[Iterable[CaseRecord]],
    measures: Sequence[tuple[Metric, MetricSpec]],
    order: Mapping[str, int],
    *,
    seed: int,
    listing: bool = False,
    sequential: Sequence[bool] = (),
) -> PairedRecords:
    """Compare the records of runs, each in the order of ``order`` (case to place), with those of the first run.

    ``sequential``: for each run, whether its edits accumulate in one model. By default, they do in none. A case that
    only one of two runs edited is not paired.
    """
    one_model = sequential or [False] * len(runs)
    seen = [[Observations(sequential=one) for _measure in measures] for one in one_model]
    changed = tuple(ChangedAnswers(listing) for _other in runs[1:])
    unpaired = [0] * len(changed)
    for records in _aligned(runs, order):
        for own, record in zip(seen, records, strict=True):
            if record is not None:
                for (metric, spec), values in zip(measures, own, strict=True):
                    values.add(metric, spec.name, record)
        for at, other in enumerate(records[1:]):
            if records[0] is None or other is None:
                continue
            if records[0].edited == other.edited:
                changed[at].add(records[0], other)
            else:
                unpaired[at] += 1
    tables = []
    for own in seen[1:]:
        pairs = zip(measures, seen[0], own, strict=True)
        tables.append([row for (_m, spec), one, two in pairs for row in differences(spec, one, two, seed=seed)])
    return PairedRecords(differences=tuple(tables), changed=changed, unpaired=tuple(unpaired))


def _aligned(runs: Sequence[Iterable[CaseRecord]], order: Mapping[str, int]) -> Iterator[tuple[CaseRecord | None, ...]]:
    """Yield the records of each case in all runs, None for a run without a record of it."""
    streams = [iter(run) for run in runs]
    ahead = [next(stream, None) for stream in streams]
    for case in order:
        found = tuple(record if record is not None and record.case.id == case else None for record in ahead)
        yield found
        for at, record in enumerate(found):
            if record is not None:
                ahead[at] = next(streams[at], None)


def _judge_options(judge: Component) -> str:
    """Return the options of ``ke judge`` for a judge."""
    given = [f"-o {judge.name}.{name}={option_text(value, name)}" for name, value in judge.options.items()]
    return " ".join([f"--judge {judge.name}", *given])


def _refuse(first: OpenRun, other: OpenRun, *, shared: bool) -> None:
    """Raise BadRun if the two cannot be paired."""
    names = f"{first.folder.path} and {other.folder.path}"
    if first.judge != other.judge:
        raise BadRun(
            f"{names} were judged differently: {first_difference(first.judge, other.judge)}",
            hint=f"judge both alike: ke judge {other.folder.path} {_judge_options(first.judge)}",
        )
    both = first.planned.keys() & other.planned.keys()
    if not both:
        raise BadRun(f"{names} have no case in common", hint=SAME)
    if not shared:
        _refuse_different_cases(first, other, len(both))
    if first.known is not other.known:
        theirs = {case.id: digest(to_json(case)) for case in other.known.cases if case.id in both}
        for case in first.known.cases:
            if case.id in both and theirs[case.id] != digest(to_json(case)):
                raise BadRun(f"case {case.id} is not the same in {names}", hint=SAME)


def _refuse_different_cases(first: OpenRun, other: OpenRun, both: int) -> None:
    """Raise BadRun unless two runs plan the same cases. ``both``: the number of common cases."""
    for one, two in ((first, other), (other, first)):
        only = one.planned.keys() - two.planned.keys()
        if not only:
            continue
        counts = f"{count_noun(len(first.planned), 'case')} and {count_noun(len(other.planned), 'case')}"
        example = min(only, key=lambda case: (len(case), case))
        raise BadRun(
            f"{first.folder.path} and {other.folder.path} have different cases: {counts}, of which {both} "
            f"{'is' if both == 1 else 'are'} in both; case {example!r} is only in {one.folder.path}",
            hint=f"ke compare --shared, on the command line, compares the common cases; or {SAME}",
        )
