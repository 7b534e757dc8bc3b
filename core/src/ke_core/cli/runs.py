"""``ke runs``: list runs. ke-plugin-analysis adds ``show`` and ``prune``, ke-plugin-reproduce adds ``watch``."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.console import out
from ke_core.results.folder import SCORES, RunFolder, runs_in
from ke_core.results.footer import spent_words
from ke_core.results.formatting import format_score, literal, plain_table
from ke_core.results.load import progress_json
from ke_core.results.reported import metric_columns
from ke_core.results.tally import tally_of
from ke_core.runner.evaluate import load_report
from ke_core.spec.errors import BadRun

SCORES_HEADING = "scores in % (n)"


class ListsByDefault(click.Group):
    """``ke runs [FOLDER]`` means ``ke runs list [FOLDER]``, and with ``--watch`` ``ke runs watch [FOLDER]``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``list`` unless the first word is a command or the help option. Replace ``--watch`` by its command."""
        if "--watch" in args and "watch" in self.commands:
            args = ["watch", *(word for word in args if word not in ("list", "--watch"))]
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("runs", cls=ListsByDefault)
def command() -> None:
    """List runs, show one, delete unfinished ones.

    `ke runs` and `ke runs FOLDER` list the runs in a folder. FOLDER is runs by default. (Write ./list for a folder
    named list.) `pip install ke-plugin-analysis` adds `ke runs show` and `ke runs prune`.

    \b
    Examples:
      ke runs runs/demo
      ke runs show runs/memit-atlas-1a2b3c4d
      ke runs prune runs
    """


@command.command("list")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"), metavar="[FOLDER]")
@shared.json_option
@click.pass_obj
def list_runs(app: App, *, folder: Path, as_json: bool) -> None:
    """List the runs in a folder, with their progress and first scores.

    \b
    Example: ke runs list runs/demo --json
    """
    if not folder.is_dir():
        raise BadRun(
            f"there is no folder {folder}", hint="ke eval and ke demo make runs; ke runs FOLDER lists another folder"
        )
    if as_json:
        rows = [
            {"run": str(path), "damaged": run.message} if isinstance(run, BadRun) else progress_json(run, app.catalog)
            for path, run in runs_in(folder)
        ]
        shared.print_json(rows)
        return
    table = plain_table("run", "id", "editor", "dataset", "model", "cases", SCORES_HEADING)
    table.shorten, table.drop = SCORES_HEADING, ("id", "dataset", "editor", "model")
    notes: list[str] = []
    for path, found in runs_in(folder):
        name = str(path.relative_to(folder))
        if isinstance(found, BadRun):
            table.add_row(literal(name), "", *[""] * 4, "?", "damaged")
            notes.append(f"{name}: {found.message}")
        else:
            row, spent = _row(app, found)
            table.add_row(*(literal(cell) for cell in (name, *row)))
            notes += [f"{name}: {spent}"] if spent else []
    if not table.row_count:
        raise BadRun(f"there is no run in {folder}", hint="ke eval and ke demo make runs")
    out().print(table, *(literal(words) for words in notes), sep="\n")


def _row(app: App, folder: RunFolder) -> tuple[tuple[str, ...], str]:
    """Return the cells after the first, and a note: what is damaged, or the usage of the run's server."""
    spec, spent = folder.spec, ""
    try:
        counted = tally_of(folder)
        progress = (f"{counted.done}/{counted.total}" if counted.total else str(counted.done)) + (
            f", {counted.failed} failed" if counted.failed else ""
        )
        spent = f"usage of its server: {spent_words(counted.spent)}" if counted.spent else ""
        scores = _scores(app, folder)
    except BadRun as error:
        progress, spent, scores = "?", error.message, "damaged"
    return (spec.id[:8], spec.editor.name, spec.dataset.component.name, spec.model.id, progress, scores), spent


def _scores(app: App, folder: RunFolder) -> str:
    """Return the first three scores after editing, each in the first style that has it."""
    if not (folder.path / SCORES).exists():
        return "not scored"
    run = load_report(folder, app.catalog)
    found = []
    for column in metric_columns([run])[:3]:
        scores = (run.score(column, "after", style) for style in run.styles("after"))
        if score := next((each for each in scores if each is not None and each.n), None):
            found.append(f"{column.heading} {format_score(score)} ({score.n:,})")
    return ", ".join(found)
