"""``ke runs``: list the runs in a folder, show one, delete unfinished ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App

if TYPE_CHECKING:
    from ke_core.results.folder import RunFolder

ROOT = Path("runs")
SCORES_HEADING = "scores in % (n)"
folder_argument = click.argument("folder", type=click.Path(path_type=Path), default=ROOT, metavar="[FOLDER]")


class ListsByDefault(click.Group):
    """``ke runs`` and ``ke runs FOLDER`` mean ``ke runs list [FOLDER]``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``list`` if the first word is no command and no option of the group."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("runs", cls=ListsByDefault)
def command() -> None:
    """List the runs in a folder, show one, remove unfinished ones.

    Without a command it lists: ke runs, ke runs FOLDER. (A folder called list is ./list.)

    \b
    Examples:
      ke runs runs/demo
      ke runs show runs/memit-atlas-1a2b3c4d
      ke runs prune runs
    """


@command.command("list")
@folder_argument
@click.pass_obj
def list_runs(app: App, *, folder: Path) -> None:
    """List the runs in a folder: what each is, how far it got, its first scores.

    \b
    Example: ke runs runs/demo
    """
    from ke_core.cli.console import out  # noqa: PLC0415  rich is for commands that print tables
    from ke_core.results.folder import runs_in  # noqa: PLC0415
    from ke_core.results.formatting import literal, plain_table  # noqa: PLC0415
    from ke_core.spec.errors import BadRun  # noqa: PLC0415

    if not folder.is_dir():
        raise BadRun(
            f"there is no folder {folder}", hint="ke eval and ke demo make runs; ke runs FOLDER looks elsewhere"
        )
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


@command.command("show")
@shared.run_argument
@click.pass_obj
def show(app: App, *, run: Path) -> None:
    """Show one run: what was asked for, how far it got, what each phase took, what failed.

    \b
    Example: ke runs show runs/memit-atlas-1a2b3c4d
    """
    from ke_core.cli.console import out  # noqa: PLC0415  as above
    from ke_core.results.course import course_page  # noqa: PLC0415
    from ke_core.results.folder import RunFolder  # noqa: PLC0415

    out().print(course_page(RunFolder.open(run), app.catalog))


@command.command("prune")
@folder_argument
@click.option("--yes", is_flag=True, help="Remove them; without it they are only listed.")
def prune(*, folder: Path, yes: bool) -> None:
    """Remove the runs in a folder that are unfinished or damaged. Only lists them without --yes.

    An unfinished run is not lost: the same command resumes it. Finished runs, runs that a process is writing to, and
    files of other programs are kept.

    \b
    Examples:
      ke runs prune runs
      ke runs prune runs --yes
    """  # fmt: skip
    from ke_core.cli.console import err, out  # noqa: PLC0415  as above
    from ke_core.results.formatting import count_noun, literal, plain_table  # noqa: PLC0415
    from ke_core.results.pruning import removable  # noqa: PLC0415
    from ke_core.spec.errors import BadRun  # noqa: PLC0415

    if not folder.is_dir():
        raise BadRun(f"there is no folder {folder}", hint="ke runs prune FOLDER looks elsewhere")
    table = plain_table("run", "why", "MB")
    for each in removable(folder):
        left = each.remove() if yes else ""
        why = f"{each.why} (left: {left})" if left else each.why
        table.add_row(literal(each.path), literal(why), f"{each.size / 1e6:,.2f}")
    if not table.row_count:
        err().print(literal(f"nothing to remove: no run in {folder} is unfinished"))
        return
    out().print(table)
    if not yes:
        words = f"{count_noun(table.row_count, 'run')} would go: ke runs prune {folder} --yes"
        err().print(literal(words), soft_wrap=True)


def _row(app: App, folder: RunFolder) -> tuple[tuple[str, ...], str]:
    """Return the cells after the first, and a note: what is damaged, or the usage of the run's server."""
    from ke_core.results.footer import spent_words  # noqa: PLC0415
    from ke_core.results.tally import tally_of  # noqa: PLC0415
    from ke_core.spec.errors import BadRun  # noqa: PLC0415

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
    cells = (spec.id[:8], spec.editor.name, spec.dataset.component.name, spec.model.id, progress, scores)
    return cells, spent


def _scores(app: App, folder: RunFolder) -> str:
    """The first three columns of its metrics, after editing, in the first style that has them."""
    from ke_core.results.folder import SCORES  # noqa: PLC0415
    from ke_core.results.formatting import format_score  # noqa: PLC0415
    from ke_core.results.reported import metric_columns  # noqa: PLC0415
    from ke_core.runner.evaluate import load_report  # noqa: PLC0415

    if not (folder.path / SCORES).exists():
        return "not scored"
    run = load_report(folder, app.catalog)
    found = []
    for column in metric_columns([run])[:3]:
        for style in run.styles("after"):
            score = run.score(column, "after", style)
            if score is not None and score.n:
                found.append(f"{column.heading} {format_score(score)} ({score.n:,})")
                break
    return ", ".join(found)
