"""``ke runs watch``: show the progress of runs until they end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import sleep

import click
from rich.console import Group
from rich.live import Live

from ke_core.app import DONE, duration, literal, one_line, out, plain_table, sanitize
from ke_core.app import options as shared
from ke_core.plugin import BadRun, to_json
from ke_plugin_reproduce.watching import ACTIVE, WatchedRun, Watcher

COLORS = {"done": "green", "failed": "red", "damaged": "red", "running": "cyan"}
REASON = 80  # characters


@click.command("watch")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"), metavar="[FOLDER]")
@click.option("--interval", type=click.FloatRange(0.1), default=5.0, show_default=True, metavar="SECONDS",
              help="Seconds between two looks at the files.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print the current state and return.")
@shared.json_option
def command(*, folder: Path, interval: float, once: bool, as_json: bool) -> int:
    """Show the progress of the runs in a folder until all have ended.

    It reads files only, so it works for every launcher, on any machine that shares the folder. Ctrl-C stops watching;
    the runs continue. Without a terminal, or with --json, it prints the current state once. `ke runs --watch` is the
    same command.

    \b
    Examples:
      ke runs watch runs/layers
      ke runs watch runs/layers --once --json
    """  # fmt: skip
    if not folder.is_dir():
        raise BadRun(f"there is no folder {folder}", hint="ke runs watch FOLDER watches another folder")
    watcher, console = Watcher(folder), out()
    runs = watcher.look()
    if as_json:
        shared.print_json([to_json(run) for run in runs])
        return DONE
    if once or not console.is_terminal:
        console.print(watch_page(runs))
        return DONE
    try:
        with Live(watch_page(runs), console=console, auto_refresh=False) as live:
            while any(run.state in ACTIVE for run in runs):
                sleep(interval)
                runs = watcher.look()
                live.update(watch_page(runs), refresh=True)
    except KeyboardInterrupt:  # ends the view, and no run
        pass
    return DONE


def watch_page(runs: Sequence[WatchedRun]) -> Group:
    """Return a table with a row for each run, and the number of runs in each state."""
    table = plain_table("run", "state", "cases", "last record", "")
    for run in runs:
        cases = (f"{run.done}/{run.total}" if run.total else str(run.done or "")) + (
            f", {run.failures} failed" if run.failures else ""
        )
        age = "" if run.age is None else f"{duration(run.age)} ago"
        state = literal(run.state, COLORS.get(run.state, ""))
        table.add_row(literal(run.name), state, literal(cases), literal(age), literal(_short(run.why)))
    counts = Counter(run.state for run in runs)
    return Group(table, literal(", ".join(f"{count} {state}" for state, count in counts.items()) or "no runs"))


def _short(reason: str) -> str:
    return one_line(sanitize(reason), REASON)
