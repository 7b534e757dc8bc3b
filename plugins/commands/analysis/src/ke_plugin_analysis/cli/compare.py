"""``ke compare A B [C...]``: the same queries in two runs or more."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, RunFolder, json_option, out
from ke_core.app import options as shared


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="A B [C...]")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="What is compared. [default: the dataset's]")
@click.option("--judge", default="", metavar="NAME", help="Whose judgments. [default: the last on record]")
@click.option("--shared", is_flag=True, help="Compare the cases that all runs have, where they are not the same.")
@click.option("--cases", is_flag=True, help="List every query that is right in one run alone.")
@json_option
@shared.data_dir
@click.pass_obj
def command(
    app: App, *, runs: tuple[Path, ...], metrics: tuple[str, ...], judge: str, shared: bool, cases: bool,
    as_json: bool, data_dir: Path | None,
) -> None:  # fmt: skip
    """Pair the same queries of two runs, and say what differs by more than chance.

    The runs must be of one dataset and the same cases, judged by the same judge. Each run after the first is compared
    with the first: the difference of every score with a 95 % interval (a paired bootstrap of what stands and falls
    together), McNemar's exact test of the answers that are right in one alone, and these answers themselves.

    \b
    Examples:
      ke compare runs/memit-atlas-1a2b3c4d runs/mello-atlas-5e6f7a8b
      ke compare runs/none-* runs/memit-* runs/rome-* --json > compared.json
    """
    import json  # noqa: PLC0415  as below

    from ke_plugin_analysis.comparing import compare_runs  # noqa: PLC0415
    from ke_plugin_analysis.report.compare import comparison_json, comparison_page  # noqa: PLC0415

    if len(runs) < 2:
        raise click.UsageError("compare what with what? give two runs or more")
    found = compare_runs(
        [RunFolder.open(path) for path in runs],
        app.catalog,
        metrics=metrics,
        judge=judge,
        shared=shared,
        data_dir=str(data_dir) if data_dir else "",
    )
    if as_json:
        click.echo(json.dumps(comparison_json(found), ensure_ascii=False, indent=1))
    else:
        out().print(comparison_page(found, cases=cases))
