"""``ke compare RUN...``: compare runs query by query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ke_core.app import SCORES, App, RunFolder, completion, err, literal, opened_runs, options, out
from ke_plugin_analysis.cli.judge import last_judge_option, rescoring_option


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...",
                shell_complete=completion.run)  # fmt: skip
@rescoring_option
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

    RUN is a run folder, or a folder that contains runs, such as that of a sweep. The runs must have the same dataset,
    cases and judge. Each run is compared with the first one. The command prints
    the difference of every score with a 95% interval (paired bootstrap over clusters of dependent observations),
    McNemar's exact test of the queries that only one run answers correctly, and examples of these queries.

    \b
    Examples:
      ke compare runs/memit-atlas-1a2b3c4d runs/mello-atlas-5e6f7a8b
      ke compare runs/none-* runs/memit-* runs/rome-* --json > compared.json
      ke compare runs/layers
    """
    from ke_plugin_analysis.comparing import compare_runs  # noqa: PLC0415
    from ke_plugin_analysis.report.compare import comparison_json, comparison_page  # noqa: PLC0415

    folders = [*_with_scores(runs)]
    if len(folders) < 2:
        there = "" if all(map(RunFolder.is_one, runs)) else f": {', '.join(map(str, runs))} has {len(folders)}"
        raise click.UsageError(f"ke compare needs two or more runs{there}")
    found = compare_runs(
        folders,
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


def _with_scores(paths: Sequence[Path]) -> Iterator[RunFolder]:
    """Yield the runs at and under ``paths``. A run under a folder is skipped if it has no scores yet."""
    named = {path.resolve() for path in paths}
    for run in opened_runs(paths):
        if run.path.resolve() in named or (run.path / SCORES).exists():
            yield run
        else:
            err().print(literal(f"skipped: {run.path} has not been scored", "yellow"), soft_wrap=True)
