"""``ke runs``: what is on record in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ke_core.cli.app import App

if TYPE_CHECKING:
    from ke_core.results.folder import RunFolder


@click.command("runs")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"), metavar="[FOLDER]")
@click.pass_obj
def command(app: App, *, folder: Path) -> None:
    """List the runs in a folder: what each is, how far it got, its first scores.

    \b
    Example: ke runs runs/demo
    """
    from ke_core.cli.console import out  # noqa: PLC0415  rich is for commands that print tables
    from ke_core.errors import BadRun  # noqa: PLC0415
    from ke_core.report.text import literal, plain_table  # noqa: PLC0415
    from ke_core.results.folder import runs_in  # noqa: PLC0415

    if not folder.is_dir():
        raise BadRun(
            f"there is no folder {folder}", hint="ke eval and ke demo make runs; ke runs FOLDER looks elsewhere"
        )
    table = plain_table("run", "id", "editor", "dataset", "model", "cases", "scores in % (n)")
    table.columns[0].no_wrap = True
    paid: list[str] = []
    for path, found in runs_in(folder):
        name = str(path.relative_to(folder))
        if isinstance(found, BadRun):
            table.add_row(literal(name), "", literal(f"damaged: {found.message}", "red"))
        else:
            row, spent = _row(app, found)
            table.add_row(*(literal(cell) for cell in (name, *row)))
            paid += [f"{name} asked its server: {spent}"] if spent else []
    if not table.row_count:
        raise BadRun(f"there is no run in {folder}", hint="ke eval and ke demo make runs")
    out().print(table, *(literal(words) for words in paid), sep="\n")


def _row(app: App, folder: RunFolder) -> tuple[tuple[str, ...], str]:
    """The cells after the first, and what a server was asked."""
    from ke_core.errors import BadRun  # noqa: PLC0415
    from ke_core.report.spent import spent_words  # noqa: PLC0415
    from ke_core.report.tally import tally  # noqa: PLC0415

    spec, spent = folder.spec, ""
    try:
        counted = tally(folder.read())
        progress = (f"{counted.done}/{counted.total}" if counted.total else str(counted.done)) + (
            f", {counted.failed} failed" if counted.failed else ""
        )
        spent = spent_words(counted.spent) if counted.spent else ""
        scores = _scores(app, folder)
    except BadRun as error:
        progress, scores = "?", f"damaged: {error.message}"
    cells = (spec.id[:8], spec.editor.name, spec.dataset.component.name, spec.model.id, progress, scores)
    return cells, spent


def _scores(app: App, folder: RunFolder) -> str:
    """The first three columns of its metrics, after editing, in the first style that has them."""
    from ke_core.report.load import load  # noqa: PLC0415
    from ke_core.report.numbers import number  # noqa: PLC0415
    from ke_core.report.run import columns  # noqa: PLC0415
    from ke_core.results.folder import SCORES  # noqa: PLC0415

    if not (folder.path / SCORES).exists():
        return "not scored"
    run = load(folder, app.catalog)
    found = []
    for column in columns([run])[:3]:
        for style in run.styles("after"):
            score = run.score(column, "after", style)
            if score is not None and score.n:
                found.append(f"{column.heading} {number(score)} ({score.n:,})")
                break
    return "\n".join(found)
