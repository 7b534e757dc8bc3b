"""Run the cells of tables, each run once, and fill in the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import define, evolve, field, frozen

from ke_benchmarks import count_cases
from ke_benchmarks.audit.bank import as_rule
from ke_benchmarks.audit.contamination import contamination, draw, tally
from ke_core.app import Catalog, JudgeModel, RunFolder, agreement_warning, read_scores
from ke_core.plugin import EFFICACY, BadData, Case, KEError, MetricScore, Progress
from ke_plugin_reproduce.cells import Cell, CellRunner, ReportProgress, Result, RunsCells
from ke_plugin_reproduce.filled import CellPart, FilledTable, Measured, Status, mean, part, picked
from ke_plugin_reproduce.judging import ModelJudges, score_as_requested
from ke_plugin_reproduce.reading import ABSENT
from ke_plugin_reproduce.requests import DatasetCache, PartPlan, Planner, RequiredRun, Resources
from ke_plugin_reproduce.table import Reproduction, Source


@frozen(kw_only=True)
class PlannedTable:
    """A table and the source of each number."""

    name: str
    planner: Planner
    rows: list[list[tuple[PartPlan, ...]]]

    def parts(self) -> Iterable[PartPlan]:
        """Yield every number."""
        return (part for row in self.rows for cell in row for part in cell)

    def needs(self) -> dict[str, RequiredRun]:
        """The runs by key."""
        return {need.key: need for part in self.parts() if part.wanted.pick.source == "scores" for need in part.needs}


def planned(tables: Mapping[str, Reproduction], catalog: Catalog, resources: Resources) -> list[PlannedTable]:
    """Plan every number of every table without running anything. Raises BadData."""
    datasets = DatasetCache(catalog)
    planners = {name: Planner(table, catalog, resources, datasets) for name, table in tables.items()}
    return [PlannedTable(name=name, planner=planner, rows=planner.rows()) for name, planner in planners.items()]


def cell(need: RequiredRun, root: Path) -> Cell:
    """A run and its folder in ``root``."""
    request = need.request
    return Cell(name=need.words, request=request, folder=root / f"{request.editor}-{request.dataset}-{need.key[:8]}")


@define(kw_only=True)
class RequiredRuns:
    """The runs of tables in ``root``. Each is made once, and resumed after an interrupt."""

    catalog: Catalog
    resources: Resources
    root: Path
    progress: Progress
    runner: RunsCells = field()
    _scores: dict[str, tuple[MetricScore, ...]] = field(factory=dict)
    _why: dict[str, str] = field(factory=dict)
    _warned: dict[str, str] = field(factory=dict)
    _counts: dict[tuple[Source, str], Mapping[str, float]] = field(factory=dict)

    @runner.default
    def _local_runner(self) -> RunsCells:
        """The runner of all tables, which often share a model."""
        return CellRunner(catalog=self.catalog, progress=self.progress)

    def make(self, needs: Mapping[str, RequiredRun], *, report: ReportProgress) -> bool:
        """Run the unfinished runs. A failure is recorded with its reason and does not stop the others.

        Returns whether any run failed.
        """
        new = {key: need for key, need in needs.items() if key not in self._scores and key not in self._why}
        results = self.runner.run([cell(need, self.root) for need in new.values()], report=report)
        judges = self._judges()  # their model is in memory until the end of this call
        for (key, need), result in zip(new.items(), results, strict=True):
            self._read(key, need, result, judges)
        return any(key in self._why for key in needs)

    def filled(self, plan: PlannedTable) -> FilledTable:
        """Return the table with the numbers of all finished runs."""
        limit = self.resources.limit
        return FilledTable(
            name=plan.name,
            table=plan.planner.table,
            cells=[[tuple(self._part(plan, one) for one in cell) for cell in row] for row in plan.rows],
            notes=(
                *plan.planner.table.notes,
                *([f"at most {limit} cases of each dataset, sampled with the seed"] if limit and plan.needs() else []),
            ),
        )

    def _judges(self) -> ModelJudges | None:
        """Return the judges that ask a model; None without a model for them."""
        if (model := self.resources.judge_model) is None:
            return None
        return ModelJudges(catalog=self.catalog, asking=JudgeModel(model=model, progress=self.progress))

    def _read(self, key: str, need: RequiredRun, result: Result, judges: ModelJudges | None) -> None:
        if result.status == "failed":
            self._why[key] = _reason(result.error, result.hint)
            return
        folder = RunFolder.open(result.cell.folder)
        try:
            if need.judge:
                assert judges is not None
                judges.score(folder, need)
            else:
                score_as_requested(folder, need.request, self.catalog)
            found = read_scores(folder)
            self._scores[key], self._warned[key] = found.scores, agreement_warning(found.judge)
        except KEError as error:
            self._why[key] = _reason(str(error), error.hint)

    def _part(self, plan: PlannedTable, one: PartPlan) -> CellPart:
        printed = one.wanted.printed
        if printed == ABSENT:
            return CellPart(printed=printed, status=Status.ABSENT)
        if one.why:
            return part(Measured(value=None, n=0, why=one.why), one.wanted, ())
        return part(mean([self._measured(plan, one, need) for need in one.needs]), one.wanted, one.notes)

    def _measured(self, plan: PlannedTable, one: PartPlan, need: RequiredRun) -> Measured:
        pick = one.wanted.pick
        if pick.source == "scores":
            if need.key in self._why:
                return Measured(value=None, n=0, why=self._why[need.key])
            found, warned = picked(self._scores[need.key], pick), self._warned[need.key]
            return evolve(found, notes=(*found.notes, f"warning: {warned}")) if warned else found
        cases = plan.planner.datasets.cases(need.request)
        try:
            numbers = self._numbers(pick.source, need, cases)
        except KEError as error:
            return Measured(value=None, n=0, why=str(error))
        if pick.aspect not in numbers:
            return Measured(value=None, n=0, why=f"{need.request.dataset} has no {pick.aspect}")
        return Measured(value=numbers[pick.aspect], n=len(cases))

    def _numbers(self, source: Source, need: RequiredRun, cases: Sequence[Case]) -> Mapping[str, float]:
        """Return the counts of a dataset, computed once. Raises BadData."""
        key = (source, need.key)
        if key not in self._counts:
            size = need.request.plan.size or 0
            self._counts[key] = counted(cases) if source == "statistics" else audited(cases, size)
        return self._counts[key]


def _reason(error: str, hint: str) -> str:
    """Return message and hint in one line, because tables have no separate line for hints."""
    return f"{error}; {hint}" if hint else error


PER_CASE = "queries per case"
TESTED, TESTED_EACH = "tested queries per case", "tested queries per case and aspect"
"""Aspects of consequences: queries after editing, except the edit's own."""
AUDIT_SEED = 100
"""The seed of the published lists of edited cases (MQuAKE-Remastered section 3.1)."""
AUDIT_RULE = as_rule("majority")
"""The rule of ``ke_benchmarks.audit.bank`` that gives every published count of MQuAKE-CF-3k."""


def counted(cases: Sequence[Case]) -> dict[str, float]:
    """Return the counts of ``ke datasets stats`` and ``queries per case``, in total and by aspect (``...: ASPECT``).

    It adds ``tested queries per case`` and their mean per aspect (``... and aspect``).
    """
    queries = Counter(probe.aspect for case in cases for probe in case.probes for _query in probe.queries)
    each = {f"{PER_CASE}: {aspect}": number / len(cases) for aspect, number in queries.items()}
    tests = [probe for case in cases for probe in case.probes if probe.asked("after") and probe.aspect != EFFICACY]
    tested = sum(len(probe.queries) for probe in tests) / len(cases)
    mean = {TESTED: tested, TESTED_EACH: tested / len({probe.aspect for probe in tests})} if tests else {}
    return {**count_cases(cases), PER_CASE: queries.total() / len(cases), **each, **mean}


def audited(cases: Sequence[Case], edited: int) -> dict[str, float]:
    """Count contaminated cases and sub-questions among unedited and edited cases, for a number of edited cases."""
    if edited > len(cases):
        raise BadData(f"cannot edit {edited} of {len(cases)} cases", hint="this dataset is smaller than the paper's")
    found = contamination(cases, draw(cases, edited, AUDIT_SEED), AUDIT_RULE)
    numbers = (*tally(found.on_unedited), *tally(found.on_edited))
    names = ("unedited cases", "unedited sub-questions", "edited cases", "edited sub-questions")
    return dict(zip(names, map(float, numbers), strict=True))
