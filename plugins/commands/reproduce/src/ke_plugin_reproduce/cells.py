"""Run many evaluations in one process. Each model is loaded once and each dataset read once.

::

    runner = CellRunner(catalog=catalog, progress=progress)
    results = runner.run([Cell(name="a", request=EvalRequest(...), folder=Path("out/a")), ...])

Finished runs are skipped and interrupted ones resumed. A failed evaluation does not stop the others. Answers of the
unedited model and statistics are shared through the caches.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Protocol

from attrs import define, evolve, field, frozen

from ke_core.app import (
    Catalog,
    EvalRequest,
    ModelChoice,
    ModelRef,
    Probed,
    Replied,
    ResolvedComponent,
    ResolvedRun,
    RunFolder,
    evaluate,
    load_model,
    measured_phase,
    one_line_reason,
    read_dataset,
    resolve_run,
    tally_of,
    unanswered,
)
from ke_core.plugin import BadRun, Case, Dataset, KEError, LanguageModel, Progress, canonical, to_json


@frozen(kw_only=True)
class Cell:
    """One evaluation and the folder of its run. ``name`` is shown to the user."""

    name: str
    request: EvalRequest
    folder: Path


@frozen(kw_only=True)
class Result:
    """The result of a cell. ``known``: it was already finished. ``failures``: the number of failed replies.

    ``error``: the reason of a failure in one line. ``hint``: what to do. ``details``: the traceback of a bug.
    ``seconds``: wall time in this process.
    """

    cell: Cell
    status: Literal["done", "failed"] = "done"
    known: bool = False
    failures: int = 0
    seconds: float = 0.0
    error: str = ""
    hint: str = ""
    details: str = ""


ReportProgress = Callable[[Cell, Result | None], object]
"""Called with a cell and None when it starts, and with its result when it ends."""


class RunsCells(Protocol):
    """Runs cells: in this process, or elsewhere through a launcher."""

    def run(self, cells: Sequence[Cell], *, report: ReportProgress) -> list[Result]:
        """Run the unfinished cells. Return the results in the order of ``cells``."""
        ...


def finished(found: ResolvedRun, folder: Path) -> bool:
    """Return whether ``folder`` holds this run, finished and without unanswered requests.

    Only the name of the model is compared, not its weights or the editor's dependencies.
    """
    try:
        there = RunFolder.open(folder)
    except BadRun:
        return False
    model = there.spec.model
    editor = evolve(found.spec.editor, dependencies=there.spec.editor.dependencies)
    return (
        same_model(found.spec.model, model)
        and evolve(found.spec, model=model, editor=editor).id == there.id
        and there.finished
        and not _open(there)
    )


def same_model(named: ModelRef, recorded: ModelRef) -> bool:
    """Return whether a recorded model has the name and, if there is one, the address of ``named``."""
    served = named.base_url.rstrip("/") in ("", recorded.base_url)
    return served and evolve(recorded, digest="", base_url="") == evolve(named, digest="", base_url="")


def known_result(found: ResolvedRun, cell: Cell) -> Result | None:
    """Return the result of a cell that is finished already; None for another."""
    if not finished(found, cell.folder):
        return None
    return Result(cell=cell, known=True, failures=tally_of(RunFolder.open(cell.folder)).failed)


def _open(there: RunFolder) -> bool:
    try:
        last = {record.place: unanswered(record) for record in there.read() if isinstance(record, Replied | Probed)}
    except BadRun:  # running it again repairs it, or reports what is wrong
        return True
    return any(last.values())


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Group the cells by model, in the order of each model's first cell. Raises BadRun if two have the same folder."""
    folders = [cell.folder.resolve() for cell in cells]
    if twice := next((folder for folder in folders if folders.count(folder) > 1), None):
        raise BadRun(f"two cells have the same folder: {twice}", hint="use a folder per cell")
    groups: dict[ModelChoice, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.request.model, []).append(cell)
    return [cell for group in groups.values() for cell in group]


@define
class Datasets:
    """Datasets with their cases. Each is read once, however many runs use it."""

    _read: dict[str, tuple[Dataset, list[Case]]] = field(factory=dict)

    def read(self, chosen: ResolvedComponent[Any]) -> tuple[Dataset, list[Case]]:
        """Return a dataset and all its cases. Raises BadData."""
        key = canonical([chosen.spec.name, to_json(chosen.config)])
        if key not in self._read:
            self._read[key] = read_dataset(chosen)
        return self._read[key]


@define(kw_only=True)
class CellRunner:
    """Runs cells. It keeps the current model and all datasets in memory, also between calls of ``run``."""

    catalog: Catalog
    progress: Progress
    _datasets: Datasets = field(factory=Datasets)
    _choice: ModelChoice | None = None
    _model: LanguageModel | None = None
    _broken: dict[ModelChoice, KEError] = field(factory=dict)
    """Why models could not be loaded in this run. Further cells fail without another attempt."""

    def run(self, cells: Sequence[Cell], *, report: ReportProgress = lambda _cell, _result: None) -> list[Result]:
        """Run the unfinished cells, model by model, and return the results in the order of ``cells``.

        A failed cell does not stop the others; the next call resumes it. Only an interrupt stops all. Raises BadRun if
        two cells have the same folder.
        """
        results: dict[str, Result] = {}
        self._broken.clear()
        for cell in in_order(cells):
            report(cell, None)
            results[str(cell.folder)] = found = self._result(cell)
            report(cell, found)
        return [results[str(cell.folder)] for cell in cells]

    def _result(self, cell: Cell) -> Result:
        """Run a cell. Errors become part of the result; only interrupts are raised."""
        started = perf_counter()
        try:
            made = self._run(cell)
        except Exception as error:  # noqa: BLE001  an error of one cell must not stop the others
            made = failed_result(cell, error)
        return evolve(made, seconds=perf_counter() - started)

    def _run(self, cell: Cell) -> Result:
        with measured_phase("reading the dataset") as reading:
            found = resolve_run(cell.request, self.catalog, read=self._datasets.read)
        if (known := known_result(found, cell)) is not None:
            return known
        with measured_phase("loading the model") as loading:
            model = self._load(cell.request.model) if found.editor_spec.needs_model else None
            run = load_model(found, cell.request, self.catalog, self.progress, model=model)
        run = evolve(run, before=(reading, loading))
        try:
            ended = evaluate(run, RunFolder.create(cell.folder, run.spec, run.files))
        except BaseException:
            self._choice = self._model = None  # the state of the model is unknown: the next cell loads it again
            raise
        return Result(cell=cell, failures=ended.failures)

    def _load(self, choice: ModelChoice) -> LanguageModel:
        """Return the model of ``choice``, loading it in place of the current one if it differs."""
        if choice in self._broken:
            raise self._broken[choice]
        if self._model is None or self._choice != choice:
            self._choice = self._model = None
            gc.collect()  # before the next is loaded: two may not fit
            try:
                self._model = choice.load(self.catalog, self.progress)
            except Exception as error:
                # without its traceback, whose frames hold a part of the model
                self._broken[choice] = KEError(one_line_reason(error), hint=getattr(error, "hint", ""))
                raise
            self._choice = choice
        return self._model


def failed_result(cell: Cell, error: Exception) -> Result:
    """Return the result of a failure, with a hint for a user's error and the traceback for a bug."""
    if isinstance(error, KEError):
        return Result(cell=cell, status="failed", error=str(error), hint=error.hint)
    return Result(
        cell=cell,
        status="failed",
        error=f"{type(error).__name__}: {' '.join(str(error).split())}",
        details="".join(traceback.format_exception(error)),
    )
