"""Many evaluations one after another: each model is loaded once, each dataset read once, and none stops the others.

::

    runner = CellRunner(catalog=catalog, progress=progress)
    results = runner.run([Cell(name="a", request=EvalRequest(...), folder=Path("out/a")), ...])

What is finished is not run again, and what was interrupted goes on where it stopped. Answers of the unedited model and
statistics are shared through the caches, as among several editors of one ``ke eval``.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Literal

from attrs import define, evolve, field, frozen

from ke_core.app import (
    Catalog,
    Datasets,
    EvalRequest,
    ModelChoice,
    Probed,
    Replied,
    ResolvedRun,
    RunFolder,
    count_failures,
    evaluate,
    load_model,
    measured_phase,
    resolve_run,
    unanswered,
)
from ke_core.plugin import BadRun, KEError, LanguageModel, Progress


@frozen(kw_only=True)
class Cell:
    """One evaluation, and the folder of its run. ``name`` is for people."""

    name: str
    request: EvalRequest
    folder: Path


@frozen(kw_only=True)
class Result:
    """What became of a cell. ``known``: it was finished before. ``failures``: replies that are a ``Failure``.

    ``error`` is why it failed, in a line, ``hint`` what to do; ``details`` the traceback where it is a bug. ``seconds``
    is the wall time of this process on it.
    """

    cell: Cell
    status: Literal["done", "failed"] = "done"
    known: bool = False
    failures: int = 0
    seconds: float = 0.0
    error: str = ""
    hint: str = ""
    details: str = ""


Told = Callable[[Cell, Result | None], object]
"""Called with a cell and None when it begins, and with its result when it ends."""


def finished(found: ResolvedRun, folder: Path) -> bool:
    """Whether ``folder`` holds this very run, finished; of the model only its name is compared, not its weights,
    nor what the editor rests on.

    What a server that was down has left unanswered is asked again.
    """
    try:
        there = RunFolder.open(folder)
    except BadRun:
        return False
    model = there.spec.model
    editor = evolve(found.spec.editor, dependencies=there.spec.editor.dependencies)
    expected = found.spec.model
    served = expected.base_url.rstrip("/") in ("", model.base_url)
    same = evolve(model, digest="", base_url="") == evolve(expected, digest="", base_url="")
    return (
        same
        and served
        and evolve(found.spec, model=model, editor=editor).id == there.id
        and there.finished
        and not _open(there)
    )


def _open(there: RunFolder) -> bool:
    try:
        last = {record.place: unanswered(record) for record in there.read() if isinstance(record, Replied | Probed)}
    except BadRun:  # run again, it is mended, or says what is wrong
        return True
    return any(last.values())


def _by_model(cells: Iterable[Cell]) -> list[Cell]:
    """Cells of one model together, models in the order of their first cell."""
    groups: dict[ModelChoice, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.request.model, []).append(cell)
    return [cell for group in groups.values() for cell in group]


@define(kw_only=True)
class CellRunner:
    """Keeps the one model that is loaded now, and the datasets read so far, also from one ``run`` to the next."""

    catalog: Catalog
    progress: Progress
    _datasets: Datasets = field(factory=Datasets)
    _choice: ModelChoice | None = None
    _model: LanguageModel | None = None
    _broken: dict[ModelChoice, Exception] = field(factory=dict)
    """Why a model could not be loaded: the next cell would wait in vain for the same."""

    def run(self, cells: Sequence[Cell], *, told: Told = lambda _cell, _result: None) -> list[Result]:
        """Run what is not finished, model by model; the results in the order of ``cells``.

        A cell that fails, for whatever reason, is left where it stands, and the next one begins: started again, it
        goes on there. Only an interrupt ends all. Two cells need two folders (BadRun).
        """
        folders = [cell.folder.resolve() for cell in cells]
        if twice := next((folder for folder in folders if folders.count(folder) > 1), None):
            raise BadRun(f"two cells have one folder: {twice}", hint="give each its own")
        results: dict[str, Result] = {}
        for cell in _by_model(cells):
            told(cell, None)
            results[str(cell.folder)] = found = self._result(cell)
            told(cell, found)
        return [results[str(cell.folder)] for cell in cells]

    def _result(self, cell: Cell) -> Result:
        """Run it, or say why not. Raises nothing but interrupts."""
        started = perf_counter()
        try:
            made = self._run(cell)
        except Exception as error:  # noqa: BLE001  whatever is wrong with one cell, the others must still run
            made = _failed(cell, error)
        return evolve(made, seconds=perf_counter() - started)

    def _run(self, cell: Cell) -> Result:
        with measured_phase("reading the dataset") as reading:
            found = resolve_run(cell.request, self.catalog, read=self._datasets)
        if finished(found, cell.folder):
            return Result(cell=cell, known=True, failures=count_failures(RunFolder.open(cell.folder).read()))
        with measured_phase("loading the model") as loading:
            model = self._load(cell.request.model) if found.editor_spec.needs_model else None
            run = load_model(found, cell.request, self.catalog, self.progress, model=model)
        run = evolve(run, before=(reading, loading))
        try:
            ended = evaluate(run, RunFolder.create(cell.folder, run.spec, run.files))
        except BaseException:
            self._choice = self._model = None  # nobody knows what it did to the model: the next cell loads it afresh
            raise
        return Result(cell=cell, failures=ended.failures)

    def _load(self, choice: ModelChoice) -> LanguageModel:
        """The model of ``choice``: the one that is here, or a new one in its place."""
        if choice in self._broken:
            raise self._broken[choice]
        if self._model is None or self._choice != choice:
            self._choice = self._model = None
            gc.collect()  # before the next is loaded: two may not fit
            try:
                self._model = choice.load(self.catalog, self.progress)
            except Exception as error:
                self._broken[choice] = error
                raise
            self._choice = choice
        return self._model


def _failed(cell: Cell, error: Exception) -> Result:
    """In a line, with what to do about it; a bug with its traceback."""
    if isinstance(error, KEError):
        return Result(cell=cell, status="failed", error=str(error), hint=error.hint)
    return Result(
        cell=cell,
        status="failed",
        error=f"{type(error).__name__}: {' '.join(str(error).split())}",
        details="".join(traceback.format_exception(error)),
    )
