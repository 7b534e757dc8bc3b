"""``ke score RUN``: score a judged run again."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, RunFolder, load_report, print_report, score_folder, split_options
from ke_core.app import options as shared
from ke_plugin_analysis.cli.judge import last_judge_option


@click.command("score")
@shared.run_argument
@shared.metric_option
@last_judge_option
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
    folder, where = RunFolder.open(run), str(data_dir) if data_dir else ""
    score_folder(folder, app.catalog, metrics=metrics, judge=judge, options=split_options(options), data_dir=where)
    print_report(app, [load_report(folder, app.catalog)], [folder.path], as_json=as_json)
