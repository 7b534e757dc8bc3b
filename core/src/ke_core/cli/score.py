"""``ke score RUN``: score a judged run again."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.report import print_report


@click.command("score")
@shared.run_argument
@shared.metric_option
@shared.last_judge_option
@shared.component_options
@shared.data_dir
@shared.json_option
@click.pass_obj
def command(
    app: App, *, run: Path, metrics: tuple[str, ...], judge: str, options: tuple[str, ...], data_dir: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Score a judged run again with other metrics.

    It reads the records of the run and loads no model.

    \b
    Example: ke score runs/memit-atlas-1a2b3c4d --metric multi-hop
    """  # fmt: skip
    from ke_core.plugins.options import split_options  # noqa: PLC0415
    from ke_core.results.folder import RunFolder  # noqa: PLC0415
    from ke_core.runner.evaluate import load_report, score_folder  # noqa: PLC0415

    folder, where = RunFolder.open(run), str(data_dir) if data_dir else ""
    score_folder(folder, app.catalog, metrics=metrics, judge=judge, options=split_options(options), data_dir=where)
    print_report(app, [load_report(folder, app.catalog)], [folder.path], as_json=as_json)
