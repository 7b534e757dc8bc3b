"""``ke score RUN``: score a judged run again."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.report import print_report


@click.command("score")
@shared.run_argument
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="A metric (repeatable). [default: the dataset's]"
)
@click.option("--judge", default="", metavar="NAME", help="The judge. [default: the last one]")
@shared.component_options
@shared.data_dir
@click.pass_obj
def command(
    app: App, *, run: Path, metrics: tuple[str, ...], judge: str, options: tuple[str, ...], data_dir: Path | None
) -> None:
    """Score a judged run again, with other metrics, from its records only.

    \b
    Example: ke score runs/memit-atlas-1a2b3c4d --metric multi-hop
    """
    from ke_core.plugins.options import split_options  # noqa: PLC0415  the runner imports numpy
    from ke_core.results.folder import RunFolder  # noqa: PLC0415
    from ke_core.runner.evaluate import load_report, score_folder  # noqa: PLC0415

    folder, where = RunFolder.open(run), str(data_dir) if data_dir else ""
    score_folder(folder, app.catalog, metrics=metrics, judge=judge, options=split_options(options), data_dir=where)
    print_report(app, [load_report(folder, app.catalog)], [folder.path])
