"""``ke runs show`` and ``ke runs prune``: show one run, and delete unfinished ones."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, RunFolder, count_noun, err, literal, out, progress_json, runs_in
from ke_core.app import options as shared
from ke_core.plugin import BadRun
from ke_plugin_analysis.pruning import removable
from ke_plugin_analysis.report.run import progress_page

LISTED = 10
"""Runs in an error message."""


@click.command("show")
@shared.run_argument
@shared.json_option
@click.pass_obj
def show(app: App, *, run: Path, as_json: bool) -> None:
    """Show the settings, progress, phases and failures of a run.

    \b
    Example: ke runs show runs/memit-atlas-1a2b3c4d
    """
    folder = _opened(run)
    if as_json:
        shared.print_json(progress_json(folder, app.catalog))
    else:
        out().print(progress_page(folder, app.catalog))


def _opened(path: Path) -> RunFolder:
    """Open a run. The error for a folder that contains runs lists them."""
    inside = [] if RunFolder.is_one(path) or not path.is_dir() else [str(place) for place, _run in runs_in(path)]
    if not inside:
        return RunFolder.open(path)
    more = f" and {len(inside) - LISTED} more; ke runs {path} lists all" if len(inside) > LISTED else ""
    raise BadRun(
        f"{path} is not a run folder: it contains {count_noun(len(inside), 'run')}",
        hint=f"show one of them: {', '.join(inside[:LISTED])}{more}",
    )


@click.command("prune")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"), metavar="[FOLDER]")
@click.option("--yes", is_flag=True, help="Delete the runs instead of listing them.")
@shared.json_option
def prune(*, folder: Path, yes: bool, as_json: bool) -> None:
    """Delete the unfinished and damaged runs in a folder. Without --yes, list them.

    The command that started an unfinished run can still resume it. Finished runs, runs that a process is writing to,
    and files of other programs are kept.

    \b
    Examples:
      ke runs prune runs
      ke runs prune runs --yes
    """  # fmt: skip
    if not folder.is_dir():
        raise BadRun(f"there is no folder {folder}", hint="ke runs prune FOLDER looks in another folder")
    rows = []
    for each in removable(folder):
        kept = each.remove() if yes else ""
        why = f"{each.why} (kept: {kept})" if kept else each.why
        rows.append({"run": str(each.path), "why": why, "MB": round(each.size / 1e6, 2)})
    if rows or as_json:
        shared.print_rows(rows, as_json=as_json)
    if not rows:
        err().print(literal(f"nothing to delete: {folder} has no unfinished run"))
    elif not yes:
        err().print(literal(f"to delete {count_noun(len(rows), 'run')}: ke runs prune {folder} --yes"), soft_wrap=True)
