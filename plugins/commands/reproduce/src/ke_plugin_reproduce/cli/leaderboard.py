"""``ke leaderboard FOLDER``: rank the runs in a folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from ke_core.app import App, err, json_option, literal, out, print_json
from ke_core.plugin import write_atomic

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("leaderboard")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option("--by", default="", metavar="[METRIC.]ASPECT", help="Score to rank by. [default: the first column]")
@click.option("--html", type=FILE, metavar="FILE", help="Write the tables as an HTML page.")
@click.option("--csv", type=FILE, metavar="FILE", help="Write one row per place.")
@json_option
@click.pass_obj
def command(app: App, *, folder: Path, by: str, html: Path | None, csv: Path | None, as_json: bool) -> None:
    """Rank the finished runs in a folder.

    Runs with the same dataset and model are ranked together. If intervals overlap, the rank is a range from the best
    to the worst possible place. --html and --csv write files and print nothing.

    \b
    Examples:
      ke leaderboard runs/layers
      ke leaderboard runs/layers --by multi-hop.instance-wise
      ke leaderboard runs/layers --html ranks.html --csv ranks.csv
    """
    from ke_plugin_reproduce.leaderboard import leaderboard  # noqa: PLC0415  as above
    from ke_plugin_reproduce.leaderboard_files import leaderboard_csv, leaderboard_html, leaderboard_json  # noqa: PLC0415  as above
    from ke_plugin_reproduce.leaderboard_page import leaderboard_page  # noqa: PLC0415  as above

    found = leaderboard(folder, app.catalog, by=by)
    if as_json:
        print_json(leaderboard_json(found))
    for path, render in ((html, partial(leaderboard_html, title=f"Leaderboard of {folder}")), (csv, leaderboard_csv)):
        if path is not None:
            write_atomic(path, render(found).encode())
            err().print(literal(f"written: {path}"), soft_wrap=True)
    if html is csv is None and not as_json:
        out().print(leaderboard_page(found))
