"""``ke judge RUN``: other judgements on the same replies."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App


@click.command("judge")
@shared.run_argument
@click.option("--judge", "name", default="", metavar="NAME", help="Who says what is right. [default: the dataset's]")
@shared.component_options
@shared.data_dir
@click.pass_obj
def command(app: App, *, run: Path, name: str, options: tuple[str, ...], data_dir: Path | None) -> None:
    """Judge the replies of a finished run again, with another judge, and score them.

    The edited model is not needed: replies are on record. Earlier judgements stay on record, the last count.

    \b
    Example: ke judge runs/memit-atlas-1a2b3c4d --judge alias -o alias.match=contains
    """
    from ke_core.cli.console import err, out  # noqa: PLC0415  the runner imports numpy
    from ke_core.plugins.options import split  # noqa: PLC0415
    from ke_core.report.load import load  # noqa: PLC0415
    from ke_core.report.numbers import counted  # noqa: PLC0415
    from ke_core.report.page import page  # noqa: PLC0415
    from ke_core.results.folder import RunFolder  # noqa: PLC0415
    from ke_core.run.evaluation import judge, score  # noqa: PLC0415

    folder, where = RunFolder.open(run), str(data_dir) if data_dir else ""
    written = judge(folder, app.catalog, name=name, options=split(options), data_dir=where)
    err().print(f"{counted(written, 'line')} of judgements written")
    score(folder, app.catalog, judge=name, data_dir=where)
    out().print(page([load(folder, app.catalog)]))
