"""``ke leaderboard FOLDER``: rank the runs in a folder."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, json_option, out, print_json


@click.command("leaderboard")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option("--by", default="", metavar="[METRIC.]ASPECT", help="Score to rank by. [default: the first column]")
@json_option
@click.pass_obj
def command(app: App, *, folder: Path, by: str, as_json: bool) -> None:
    """Rank the finished runs in a folder.

    Runs with the same dataset and model are ranked together. If intervals overlap, the rank is a range from the best
    to the worst possible place.

    \b
    Examples:
      ke leaderboard runs/layers
      ke leaderboard runs/layers --by multi-hop.instance
    """
    from ke_plugin_reproduce.leaderboard import leaderboard, leaderboard_json, leaderboard_page  # noqa: PLC0415  as above

    found = leaderboard(folder, app.catalog, by=by)
    if as_json:
        print_json(leaderboard_json(found))
    else:
        out().print(leaderboard_page(found))
