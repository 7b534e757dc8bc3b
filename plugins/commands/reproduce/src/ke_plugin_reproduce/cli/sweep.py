"""``ke sweep FILE.toml``: many evaluations, planned first, run in one process, side by side in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ke_core.app import App
from ke_core.app import options as shared

if TYPE_CHECKING:
    from ke_plugin_reproduce.sweep import PlannedCell


@click.command("sweep")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.toml")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the run folders go. [default: runs/NAME-OF-THE-FILE]",
)
@click.option("--dry-run", is_flag=True, help="Say what would be run and what it would take; run nothing.")
@shared.data_dir
@click.pass_obj
def command(app: App, *, file: Path, out: Path | None, dry_run: bool, data_dir: Path | None) -> int:
    """Run every combination of editors, datasets, models, sizes, seeds and options that FILE.toml lists.

    Each combination is a run in a folder of its own. What is finished is not run again, what was interrupted goes on
    where it stopped, and one that fails does not stop the others. ke leaderboard ranks them.

    \b
    Examples:
      ke sweep layers.toml --dry-run
      ke sweep layers.toml
      ke leaderboard runs/layers
    """  # fmt: skip
    from ke_core.app import out as stdout  # noqa: PLC0415  the runner imports numpy
    from ke_plugin_reproduce.cli.sweeping import plan, plan_page, run_planned  # noqa: PLC0415  as above

    root = out or Path("runs") / file.stem
    made: list[PlannedCell] = plan(app, file, root, data_dir)
    if dry_run:
        stdout().print(plan_page(made, root))
        return 0
    return run_planned(app, made, root)
