"""``ke compare A B [C...]``: compare runs query by query."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, RunFolder, completion, options, out
from ke_plugin_analysis.cli.judge import last_judge_option


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="A B [C...]",
                shell_complete=completion.run)  # fmt: skip
@options.metric_option
@last_judge_option
@click.option("--shared", is_flag=True, help="Compare only the cases that all runs have.")
@click.option("--cases", is_flag=True, help="List every query that only one run answers correctly.")
@options.json_option
@options.data_dir
@click.pass_obj
def command(
    app: App, *, runs: tuple[Path, ...], metrics: tuple[str, ...], judge: str, shared: bool, cases: bool,
    as_json: bool, data_dir: Path | None,
) -> None:  # fmt: skip
    """Compare runs query by query, with significance tests.

    The runs must have the same dataset, cases and judge. Each run is compared with the first one. The command prints
    the difference of every score with a 95% interval (paired bootstrap over clusters of dependent observations),
    McNemar's exact test of the queries that only one run answers correctly, and examples of these queries.

    \b
    Examples:
      ke compare runs/memit-atlas-1a2b3c4d runs/mello-atlas-5e6f7a8b
      ke compare runs/none-* runs/memit-* runs/rome-* --json > compared.json
    """
    from ke_plugin_analysis.comparing import compare_runs  # noqa: PLC0415
    from ke_plugin_analysis.report.compare import comparison_json, comparison_page  # noqa: PLC0415

    if len(runs) < 2:
        raise click.UsageError("ke compare needs two or more runs")
    found = compare_runs(
        [RunFolder.open(path) for path in runs],
        app.catalog,
        metrics=metrics,
        judge=judge,
        shared=shared,
        listing=cases or as_json,
        data_dir=str(data_dir) if data_dir else "",
    )
    if as_json:
        options.print_json(comparison_json(found))
    else:
        out().print(comparison_page(found, cases=cases))
