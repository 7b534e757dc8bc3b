"""``ke sweep FILE.toml``: run every combination of the settings in a file, in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define, evolve, field
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from ke_core.app import (
    DONE,
    FAILED,
    App,
    BarProgress,
    LineProgress,
    count_noun,
    duration,
    err,
    literal,
    one_line,
    out,
    plain_table,
    sanitize,
)
from ke_core.app import options as shared
from ke_core.plugin import KEError, Progress, to_json
from ke_plugin_reproduce.cells import Cell, CellRunner, Result
from ke_plugin_reproduce.estimate import EarlierRuns, Rates, Workload, workload_of
from ke_plugin_reproduce.leaderboard import leaderboard, leaderboard_json, leaderboard_page
from ke_plugin_reproduce.summary import write_summary
from ke_plugin_reproduce.sweep import PlannedCell, cells_of, planned
from ke_plugin_reproduce.sweep_file import read_sweep

if TYPE_CHECKING:
    from ke_plugin_reproduce.sweep import PlannedCell


@click.command("sweep")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.toml")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Parent of the run folders. [default: runs/NAME-OF-THE-FILE]")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the planned runs and their estimated cost; run nothing.")
@shared.data_dir
@shared.json_option
@click.pass_obj
def command(app: App, *, file: Path, out: Path | None, dry_run: bool, data_dir: Path | None, as_json: bool) -> int:
    """Run every combination of the settings in a file.

    FILE.toml lists editors, datasets, models, batch sizes, seeds and options. Each combination is a run in its own
    folder. Finished runs are kept, interrupted runs are resumed, and a run that fails does not stop the others. At
    the end, the command prints the ranking of `ke leaderboard`.

    \b
    Examples:
      ke sweep layers.toml --dry-run
      ke sweep layers.toml
      ke leaderboard runs/layers
    """  # fmt: skip
    from ke_core.app import out as stdout  # noqa: PLC0415  the runner imports numpy

    root = out or Path("runs") / file.stem
    made: list[PlannedCell] = plan(app, file, root, data_dir)
    if not dry_run:
        return run_planned(app, made, root, as_json=as_json)
    if as_json:
        shared.print_json(plan_json(made, root))
    else:
        stdout().print(plan_page(made, root))
    return DONE


UNKNOWN = "?"
REASON = 100  # characters of an error in a table
GIB = 1 << 30


def plan(app: App, file: Path, root: Path, data_dir: Path | None) -> list[PlannedCell]:
    """Resolve every cell. Raises a KEError of the file, or of a cell if none can be run."""
    sweep = read_sweep(file)
    if data_dir is not None:
        sweep = evolve(sweep, data_dir=str(data_dir))
    made = list(planned(cells_of(sweep, app.catalog, root), app.catalog))
    errors = [each.error for each in made if each.error is not None]
    if len(errors) == len(made):
        raise errors[0]
    return made


def plan_json(made: Sequence[PlannedCell], root: Path) -> list[dict[str, Any]]:
    """Return each cell with its workload and estimated cost, as JSON values."""
    earlier, seen, cells = EarlierRuns(roots=[*dict.fromkeys((root, root.parent))]), set[int](), []
    for each in made:
        state = "failed" if each.found is None else "done" if each.done else "begun" if each.begun else "waiting"
        cell: dict[str, Any] = {"name": each.cell.name, "folder": str(each.cell.folder), "state": state}
        if each.error is not None:
            cell["error"] = str(each.error)
        if each.found is not None and not each.done:
            work, rates = workload_of(each.found, each.cell.request.model.reference, seen), earlier.rates(each.found)
            cell |= {**to_json(work), "model_calls": rates.model_calls(work), "seconds": rates.seconds(work)}
        cells.append(cell)
    return cells


def plan_page(made: Sequence[PlannedCell], root: Path) -> Group:
    """Return a table of the cells with their workload and estimated cost."""
    table = plain_table("cell", "cases", "edits", "asked\nunedited", "asked\nedited", "model\ncalls", "time")
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    earlier, seen = EarlierRuns(roots=[*dict.fromkeys((root, root.parent))]), set[int]()
    totals, wrong = _Totals(), list[str]()
    for each in made:
        name = literal(each.cell.name)
        if each.found is None:
            table.add_row(name, literal("no", "red"))
            wrong.append(f"cannot be run: {each.cell.name}: {one_line(str(each.error), REASON)}")
        elif each.done:
            table.add_row(name, literal("done", "green"))
        else:
            work, rates = workload_of(each.found, each.cell.request.model.reference, seen), earlier.rates(each.found)
            totals.add(work, rates)
            begun = " (begun)" if each.begun else ""
            table.add_row(literal(f"{each.cell.name}{begun}"), *_row(work, rates))
    return Group(table, *(literal(line, "red") for line in wrong), *(literal(line) for line in totals.lines(made)))


def _row(work: Workload, rates: Rates) -> list[str]:
    seconds, calls = rates.seconds(work), rates.model_calls(work)
    counts = [f"{count:,}" for count in (work.cases, work.edits, work.unedited, work.edited)]
    return [*counts, UNKNOWN if calls is None else f"{calls:,}", UNKNOWN if seconds is None else duration(seconds)]


@define
class _Totals:
    edits: int = 0
    asked: int = 0
    seconds: float = 0.0
    timed: int = 0
    cells: int = 0
    memory: int = 0

    def add(self, work: Workload, rates: Rates) -> None:
        self.cells += 1
        self.memory = max(self.memory, rates.memory)
        self.edits += work.edits
        self.asked += work.unedited + work.edited
        seconds = rates.seconds(work)
        self.timed += seconds is not None
        self.seconds += seconds or 0.0

    def lines(self, made: Sequence[PlannedCell]) -> Iterator[str]:
        """Yield the totals, and what they do not include."""
        done, wrong = sum(each.done for each in made), sum(each.found is None for each in made)
        yield (
            f"{count_noun(len(made), 'cell')}: {done} finished, {wrong} cannot be run, {self.cells} to run with "
            f"{count_noun(self.edits, 'edit')} and {count_noun(self.asked, 'question')}"
        )
        if self.timed:
            rest = self.cells - self.timed
            without = f", without {count_noun(rest, 'cell')} that have no earlier runs" if rest else ""
            yield f"estimated time from earlier runs: {duration(self.seconds)}{without}; less for begun cells"
            if self.memory:
                yield f"largest peak memory of earlier runs: {self.memory / GIB:.1f} GiB"
        elif self.cells:
            yield "no time estimate: no earlier runs of these editors, datasets and models"


def run_planned(app: App, made: Sequence[PlannedCell], root: Path, *, as_json: bool = False) -> int:
    """Run the cells, write the summary and print the ranking. Return 1 if a cell failed or has failed replies."""
    console = err()
    board = Board.of(made, root)
    if board.done:
        console.print(literal(f"{len(board.done)} of {count_noun(len(made), 'cell')} finished before", "dim"))
    with _shown(console, board) as progress:
        runner = CellRunner(catalog=app.catalog, progress=progress)
        runner.run([each.cell for each in made if each.found is not None], told=board.told)
    for result in board.results.values():
        if result.status == "failed":
            console.print(literal(f"{result.cell.name} failed: {result.error}", "red"), soft_wrap=True)
            if result.hint:
                console.print(literal(f"  {result.hint}"), soft_wrap=True)
    if any(result.status == "done" for result in board.results.values()):
        ranking = leaderboard(root, app.catalog)
        if as_json:
            shared.print_json(leaderboard_json(ranking))
        else:
            out().print(leaderboard_page(ranking))
    bad = [result for result in board.results.values() if result.status == "failed" or result.failures]
    return FAILED if bad else DONE


@define
class Board:
    """Where every cell stands. ``done``: names of those finished before. ``lines``: where changes are told in lines."""

    cells: list[Cell]
    root: Path
    done: frozenset[str] = frozenset()
    results: dict[str, Result] = field(factory=dict)
    running: str = ""
    lines: Console | None = None

    @classmethod
    def of(cls, made: Sequence[PlannedCell], root: Path) -> Board:
        """Before the first is run; those that cannot be are failed already."""
        board = cls([each.cell for each in made], root, frozenset(each.cell.name for each in made if each.done))
        for each in made:
            if each.error is not None:
                error: KEError = each.error
                board.results[each.cell.name] = Result(
                    cell=each.cell, status="failed", error=str(error), hint=error.hint
                )
        return board

    def told(self, cell: Cell, result: Result | None) -> None:
        """A cell begins, or has ended: then it is in the summary before the next begins."""
        self.running = cell.name if result is None else ""
        if result is not None:
            self.results[cell.name] = result
            write_summary(self.root, self.cells, self.results)
        if self.lines is not None and cell.name not in self.done:
            number = f"{self.cells.index(cell) + 1}/{len(self.cells)}"
            words = f"-> {cell.folder}" if result is None else _words(result)
            self.lines.print(literal(f"{number} {cell.name}: {words}"), soft_wrap=True)

    def table(self, height: int) -> Table:
        """Those around the one that is running, as many as there is room for, and how many are in which state."""
        at = next((i for i, cell in enumerate(self.cells) if cell.name == self.running), len(self.cells))
        start = max(0, min(at - height // 2, len(self.cells) - height))
        shown = plain_table("cell", "state")
        for cell in self.cells[start : start + height]:
            result = self.results.get(cell.name)
            if cell.name == self.running:
                shown.add_row(literal(cell.name, "bold"), literal("running", "bold"))
            elif result is None:
                shown.add_row(literal(cell.name, "dim"), literal("waiting", "dim"))
            else:
                shown.add_row(literal(cell.name), literal(_words(result), _color(result)))
        failed = sum(result.status == "failed" for result in self.results.values())
        done = len(self.results) - failed
        shown.caption = literal(f"{done} done, {failed} failed, {len(self.cells) - done - failed} to do")
        return shown


@contextmanager
def _shown(console: Console, board: Board) -> Iterator[Progress]:
    """A live table with the bars of the running cell on a terminal, else lines."""
    if not console.is_terminal:
        board.lines = console
        with LineProgress(console) as lines:
            yield lines
        return
    bars = BarProgress(console)

    class View:
        def __rich__(self) -> RenderableType:
            return Group(board.table(max(3, console.height - 10)), bars.view)

    with Live(View(), console=console, refresh_per_second=4):
        yield bars


def _words(result: Result) -> str:
    if result.status == "failed":
        return f"failed: {one_line(sanitize(result.error), REASON)}"
    if result.known:
        return "finished before"
    failures = f", {count_noun(result.failures, 'failed reply', 'failed replies')}" if result.failures else ""
    return f"done in {duration(result.seconds)}{failures}"


def _color(result: Result) -> str:
    return "red" if result.status == "failed" else "yellow" if result.failures else "green"
