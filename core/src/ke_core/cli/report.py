"""``ke report RUN...``: the tables of runs that are on record."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.cli.app import App


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--short", is_flag=True, help="Without the breakdowns by tag.")
@click.pass_obj
def command(app: App, *, runs: tuple[Path, ...], short: bool) -> None:
    """Print the table of one run, or of several side by side.

    Runs that have not been scored yet are scored from their records.

    \b
    Example: ke report runs/none-atlas-* runs/memit-atlas-*
    """
    from ke_core.cli.console import out  # noqa: PLC0415  the runner imports numpy
    from ke_core.report.load import load  # noqa: PLC0415
    from ke_core.report.page import page  # noqa: PLC0415
    from ke_core.results.folder import RunFolder  # noqa: PLC0415

    folders = [RunFolder.open(path) for path in runs]
    out().print(page([load(folder, app.catalog) for folder in folders], slices=not short))
