"""Run cells through a launcher: submit, wait, submit lost jobs again, and cancel.

``FOLDER/jobs/CELL.json`` names the job of each cell. The same command therefore finds the jobs of an earlier one that
still run, and waits for them instead of submitting them again. ``FOLDER/jobs/CELL.failed`` holds the error of a failed
job, for commands that do not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import sleep

from attrs import define, evolve, field, frozen

from ke_core.app import Catalog, resolve_run, to_bytes
from ke_core.plugin import KEError, loads, uninterruptible, write_atomic
from ke_plugin_reproduce.cells import Cell, Datasets, ReportProgress, Result, failed_result, in_order, known_result
from ke_plugin_reproduce.launcher import FAILED, JOBS, CellJob, Launcher, LostJob, job_file

POLL = 0.5  # seconds between two looks at the jobs
IN_USE = "another process is writing to "
"""The beginning of the error of a run folder that another process uses."""


@frozen(kw_only=True)
class PlacedCell:
    """A cell and its current job. ``tries``: how many jobs this command has submitted for it."""

    cell: Cell
    place: str
    tries: int


@define(kw_only=True)
class LaunchedRunner:
    """Runs every cell as a job of its own, at most ``at_once`` of them at a time.

    A job that ends without a result is submitted again, up to ``retries`` times: the cell resumes from its folder. A
    cell that fails with an error is not. ``note`` is called with a line about each resubmission.
    """

    catalog: Catalog
    launcher: Launcher
    name: str
    at_once: int | None = None
    retries: int = 0
    note: Callable[[str], object] = lambda _line: None
    poll: float = POLL
    _datasets: Datasets = field(factory=Datasets)
    _active: dict[Path, PlacedCell] = field(factory=dict)

    def run(self, cells: Sequence[Cell], *, report: ReportProgress = lambda _cell, _result: None) -> list[Result]:
        """Run the unfinished cells and return the results in the order of ``cells``. An interrupt cancels the jobs.

        A failed cell does not stop the others. Raises BadRun if two cells have the same folder.
        """
        results: dict[Path, Result] = {}
        active = self._active
        active.clear()
        waiting = self._unfinished(cells, results, report)

        def take(cell: Cell, step: Callable[[], Result | PlacedCell]) -> None:
            """Note the job or the result of ``cell`` after a step. If a job is refused, only its cell fails."""
            try:
                found = step()
            except KEError as error:
                found = failed_result(cell, error)
            if isinstance(found, PlacedCell):
                active[cell.folder] = found
            else:
                active.pop(cell.folder, None)
                results[cell.folder] = found
                report(cell, found)

        try:
            while waiting or active:
                while waiting and (self.at_once is None or len(active) < self.at_once):
                    cell = waiting.pop(0)
                    report(cell, None)
                    take(cell, partial(self._placed, cell))
                for placed in [each for each in active.values() if not self.launcher.active(each.place)]:
                    take(placed.cell, partial(self._ended, placed))
                if active:
                    sleep(self.poll)
        except KeyboardInterrupt:  # after other errors, the same command finds the jobs again
            self.launcher.cancel([placed.place for placed in active.values()])
            raise
        return [results[cell.folder] for cell in cells]

    def submit(self, cells: Sequence[Cell], *, report: ReportProgress = lambda _cell, _result: None) -> int:
        """Submit the unfinished cells that have no active job, without waiting. Return the number of active jobs.

        If a job is refused, only its cell fails.
        """
        count = 0
        for cell in self._unfinished(cells, {}, report):
            report(cell, None)
            try:
                self._placed(cell)
                count += 1
            except KEError as error:
                report(cell, failed_result(cell, error))
        return count

    def _unfinished(self, cells: Sequence[Cell], results: dict[Path, Result], report: ReportProgress) -> list[Cell]:
        """Return the cells to submit, and report the others: those that are finished or cannot be run."""
        waiting = []
        for cell in in_order(cells):
            try:
                known = known_result(resolve_run(cell.request, self.catalog, read=self._datasets.read), cell)
            except KEError as error:
                known = failed_result(cell, error)
            if known is None:
                waiting.append(cell)
                continue
            report(cell, None)
            results[cell.folder] = known
            report(cell, known)
        return waiting

    def _placed(self, cell: Cell) -> PlacedCell:
        """Return the active job of a cell, submitted now unless an earlier command did."""
        place = self._earlier(cell)
        if place and self.launcher.active(place):
            return PlacedCell(cell=cell, place=place, tries=0)
        return self._submitted(cell, 1)

    @uninterruptible
    def _submitted(self, cell: Cell, tries: int) -> PlacedCell:
        """Submit a cell and record its job. An interrupt in between would leave a job that nobody cancels."""
        for suffix in (".json", FAILED):  # of an earlier job
            job_file(cell, suffix).unlink(missing_ok=True)
        place = self.launcher.submit(CellJob.of(cell))
        self._active[cell.folder] = placed = PlacedCell(cell=cell, place=place, tries=tries)
        write_atomic(job_file(cell), to_bytes({"launcher": self.name, "place": place}))
        return placed

    def _earlier(self, cell: Cell) -> str:
        try:
            found = loads(job_file(cell).read_bytes())
            return str(found["place"]) if found["launcher"] == self.name else ""
        except (OSError, ValueError, KeyError, TypeError):  # none, or not ours
            return ""

    def _ended(self, placed: PlacedCell) -> Result | PlacedCell:
        """Return the result of a job that has ended, or the next job of its cell."""
        cell = placed.cell
        try:
            return self._result(placed)
        except LostJob as lost:
            if placed.tries <= self.retries:
                tries = f"{placed.tries} of {self.retries}" if placed.tries else "again"
                self.note(f"{cell.name}: job {placed.place} ended without a result, resubmitting ({tries}): {lost}")
                return self._submitted(cell, placed.tries + 1)
            error = KEError(
                f"job {placed.place} of {self.name} ended without a result, as did the jobs before it: {lost}",
                hint=f"its logs may be in {cell.folder.parent / JOBS}; the same command resumes the cell",
            )
            return failed_result(cell, error)

    def _result(self, placed: PlacedCell) -> Result:
        """Return the result of a job that has ended. Raises LostJob, also if another job was writing to the folder."""
        result = self.launcher.result(placed.place)
        if result.error.startswith(IN_USE):
            raise LostJob(result.error)
        return evolve(result, cell=placed.cell)
