"""``ke sweep FILE.toml``: run every combination of the settings in a file, in this process or through a launcher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from attrs import evolve
from rich.console import Group

from ke_core.app import (
    DONE,
    FAILED,
    App,
    count_noun,
    duration,
    err,
    literal,
    one_line,
    out,
    plain_table,
    progress,
    sanitize,
)
from ke_core.app import options as shared
from ke_core.plugin import to_json
from ke_plugin_reproduce.cells import Cell, Result
from ke_plugin_reproduce.cli.launching import LAUNCH_OPTIONS, Launch, only_command, print_detached
from ke_plugin_reproduce.estimate import EarlierRuns, Rates, Workload, workload_of
from ke_plugin_reproduce.launching import LaunchedRunner
from ke_plugin_reproduce.leaderboard import leaderboard
from ke_plugin_reproduce.leaderboard_files import leaderboard_json
from ke_plugin_reproduce.leaderboard_page import leaderboard_page
from ke_plugin_reproduce.sweep import PlannedCell, cells_of, planned, write_summary
from ke_plugin_reproduce.sweep_file import read_sweep


@click.command("sweep")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.toml")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Parent of the run folders. [default: runs/NAME-OF-THE-FILE]")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the planned runs and their estimated cost; run nothing.")
@shared.data_dir
@shared.json_option
@LAUNCH_OPTIONS
@click.pass_obj
def command(
    app: App, /, *, file: Path, out: Path | None, dry_run: bool, data_dir: Path | None, as_json: bool, **given: Any
) -> int:
    """Run every combination of the settings in a file.

    FILE.toml lists editors, datasets, models, batch sizes, seeds and options. Each combination is a run in its own
    folder. Finished runs are kept, interrupted runs are resumed, and a run that fails does not stop the others. At
    the end, the command prints the ranking of `ke leaderboard`. With --launcher, each run is a job on Slurm or Ray;
    Ctrl-C cancels the jobs.

    \b
    Examples:
      ke sweep layers.toml --dry-run
      ke sweep layers.toml
      ke sweep layers.toml --launcher submitit --launcher-option slurm_partition=gpu --launcher-option gpus_per_node=1
      ke sweep layers.toml --launcher ray --jobs 8
      ke runs watch runs/layers
      ke leaderboard runs/layers
    """  # fmt: skip
    from ke_core.app import out as stdout  # noqa: PLC0415  the runner imports numpy

    root, launch = out or Path("runs") / file.stem, Launch.of(given)
    made: list[PlannedCell] = plan(app, file, root, data_dir)
    if not dry_run:
        return run_planned(app, made, root, launch, as_json=as_json)
    if as_json:
        shared.print_json(plan_json(made, root))
    else:
        stdout().print(plan_page(made, root))
    return DONE


UNKNOWN = "?"
REASON = 100  # characters of an error in a table
GIB = 1 << 30
Estimate = tuple[Workload, Rates]


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
    cells = []
    for each, estimate in _estimated(made, root):
        cell: dict[str, Any] = {"name": each.cell.name, "folder": str(each.cell.folder), "state": _state(each)}
        if each.error is not None:
            cell["error"] = str(each.error)
        if estimate is not None:
            work, rates = estimate
            cell |= {**to_json(work), "model_calls": rates.model_calls(work), "seconds": rates.seconds(work)}
        cells.append(cell)
    return cells


def _state(cell: PlannedCell) -> str:
    if cell.found is None:
        return "invalid"
    if cell.done:
        return "done"
    return "interrupted" if cell.interrupted else "waiting"


def plan_page(made: Sequence[PlannedCell], root: Path) -> Group:
    """Return a table of the cells with their workload and estimated cost."""
    table = plain_table("cell", "cases", "edits", "questions\nunedited", "questions\nedited", "model\ncalls", "time")
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    estimates, wrong = list[Estimate](), list[str]()
    for each, estimate in _estimated(made, root):
        if estimate is not None:
            estimates.append(estimate)
            table.add_row(literal(each.cell.name + (" (interrupted)" if each.interrupted else "")), *_row(*estimate))
        elif each.done:
            table.add_row(literal(each.cell.name), literal("done", "green"))
        else:
            table.add_row(literal(each.cell.name), literal("no", "red"))
            wrong.append(f"cannot be run: {each.cell.name}: {one_line(str(each.error), REASON)}")
    return Group(table, *(literal(line, "red") for line in wrong), *map(literal, _totals(made, estimates)))


def _estimated(made: Sequence[PlannedCell], root: Path) -> Iterator[tuple[PlannedCell, Estimate | None]]:
    """Yield each cell with its estimate. Finished cells and cells that cannot be run have none."""
    earlier, seen = EarlierRuns(roots=[*dict.fromkeys((root, root.parent))]), set[int]()
    for each in made:
        if each.found is None or each.done:
            yield each, None
        else:
            yield each, (workload_of(each.found, each.cell.request.model.reference, seen), earlier.rates(each.found))


def _row(work: Workload, rates: Rates) -> list[str]:
    seconds, calls = rates.seconds(work), rates.model_calls(work)
    counts = [f"{count:,}" for count in (work.cases, work.edits, work.unedited, work.edited)]
    return [*counts, UNKNOWN if calls is None else f"{calls:,}", UNKNOWN if seconds is None else duration(seconds)]


def _totals(made: Sequence[PlannedCell], estimates: Sequence[Estimate]) -> Iterator[str]:
    """Yield the totals, and what they do not include."""
    done, wrong = sum(each.done for each in made), sum(each.found is None for each in made)
    questions = sum(work.unedited + work.edited for work, _rates in estimates)
    yield (
        f"{count_noun(len(made), 'cell')}: {done} finished, {wrong} cannot be run, {len(estimates)} to run with "
        f"{count_noun(sum(work.edits for work, _rates in estimates), 'edit')} and {count_noun(questions, 'question')}"
    )
    timed = [seconds for work, rates in estimates if (seconds := rates.seconds(work)) is not None]
    if timed:
        rest = len(estimates) - len(timed)
        without = f", without {count_noun(rest, 'cell')} that have no earlier runs" if rest else ""
        yield f"estimated time from earlier runs: {duration(sum(timed))}{without}; less for interrupted cells"
        if memory := max(rates.memory for _work, rates in estimates):
            yield f"largest peak memory of earlier runs: {memory / GIB:.1f} GiB"
    elif estimates:
        yield "no time estimate: no earlier runs of these editors, datasets and models"


def run_planned(app: App, made: Sequence[PlannedCell], root: Path, launch: Launch, *, as_json: bool = False) -> int:
    """Run the cells, write the summary and print the ranking. Return 1 if a cell failed or has failed replies."""
    console = err()
    cells = [each.cell for each in made]
    finished = {each.cell.name for each in made if each.done}
    results = {
        each.cell.name: Result(cell=each.cell, status="failed", error=str(each.error), hint=each.error.hint)
        for each in made
        if each.error is not None
    }

    def report(cell: Cell, result: Result | None) -> None:
        """Print a line when a cell starts and when it ends. The summary is written before the next cell starts."""
        if result is not None:
            results[cell.name] = result
        write_summary(root, cells, results)
        if cell.name not in finished:
            number = f"{cells.index(cell) + 1}/{len(cells)}"
            words = f"-> {cell.folder}" if result is None else _words(result)
            console.print(literal(f"{number} {cell.name}: {words}"), soft_wrap=True)

    if finished:
        console.print(literal(f"{len(finished)} of {count_noun(len(made), 'cell')} finished before", "dim"))
    runnable = [each.cell for each in made if each.found is not None]
    with only_command(root), progress(console) as bars:
        runner = launch.runner(app, root, bars)
        if not launch.detach:
            runner.run(runnable, report=report)
        else:
            assert isinstance(runner, LaunchedRunner)
            print_detached(runner.submit(runnable, report=report), root)
    _print_failures(results.values())
    if not launch.detach and any(result.status == "done" for result in results.values()):
        ranking = leaderboard(root, app.catalog)
        if as_json:
            shared.print_json(leaderboard_json(ranking))
        else:
            out().print(leaderboard_page(ranking))
    return FAILED if any(result.status == "failed" or result.failures for result in results.values()) else DONE


def _print_failures(results: Iterable[Result]) -> None:
    for result in results:
        if result.status == "failed":
            err().print(literal(f"{result.cell.name} failed: {result.error}", "red"), soft_wrap=True)
            if result.hint:
                err().print(literal(f"  {result.hint}"), soft_wrap=True)


def _words(result: Result) -> str:
    if result.status == "failed":
        return f"failed: {one_line(sanitize(result.error), REASON)}"
    if result.known:
        return "finished before"
    failures = f", {count_noun(result.failures, 'failed reply', 'failed replies')}" if result.failures else ""
    return f"done in {duration(result.seconds)}{failures}"
