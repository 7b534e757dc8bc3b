"""``ke annotate RUN``: label answers manually, and measure the judge's agreement."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, RunFolder, count_noun, err, split_options
from ke_core.app import options as shared
from ke_plugin_analysis.cli.judge import last_judge_option

SHEET = click.Path(dir_okay=False, path_type=Path)


@click.command("annotate")
@shared.run_argument
@click.option("--out", type=SHEET, metavar="SHEET.csv", help="Write a sheet of answers to label.")
@click.option("--sample", type=click.IntRange(1), default=None, metavar="N",
              help="With --out: number of answers. [default: 200]")  # fmt: skip
@click.option("--read", "sheet", type=SHEET, metavar="SHEET.csv", help="Read a labeled sheet.")
@shared.seed_option
@last_judge_option
@click.option("--force", is_flag=True, help="Replace an existing sheet.")
@shared.component_options
@shared.data_dir
@shared.json_option
@click.pass_obj
def command(
    app: App,
    *,
    run: Path,
    sample: int | None,
    out: Path | None,
    sheet: Path | None,
    seed: int,
    judge: str,
    force: bool,
    options: tuple[str, ...],
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Label answers manually, and measure the judge's agreement.

    --out writes a sheet with a sample of the answers, stratified by phase, style, aspect and verdict, but without the
    verdicts. In the column label, write right, wrong, pre-edit (right before the edit) or unsure. In the column
    error-types (and those of other metrics that classify answers) you can write the kind of error. --read then
    compares your labels with the judge's verdicts.

    \b
    Examples:
      ke annotate runs/mello-atlas-1a2b3c4d --sample 200 --out sheet.csv
      ke annotate runs/mello-atlas-1a2b3c4d --read sheet.csv
    """  # fmt: skip
    from ke_core.app import out as shown  # noqa: PLC0415
    from ke_plugin_analysis.annotating import read_labels, write_labels  # noqa: PLC0415
    from ke_plugin_analysis.report.labels import labels_json, labels_page  # noqa: PLC0415

    if (out is None) == (sheet is None):
        raise click.UsageError("use --out SHEET.csv to write a sheet, or --read SHEET.csv to read one")
    folder, where = RunFolder.open(run), str(data_dir) if data_dir else ""
    if sheet is not None:
        if sample is not None:
            raise click.UsageError("--sample needs --out")
        found = read_labels(folder, app.catalog, sheet, judge=judge, options=split_options(options), data_dir=where)
        if as_json:
            shared.print_json(labels_json(found))
        else:
            shown().print(labels_page(found))
    elif out is not None:
        if options:
            raise click.UsageError("-o needs --read: it does not change the sheet")
        if out.exists() and not force:
            raise click.UsageError(f"{out} exists, and may contain labels: add --force to replace it")
        wanted = sample or 200
        n = write_labels(folder, app.catalog, out, sample=wanted, seed=seed, judge=judge, data_dir=where)
        fewer = f" ({wanted:,} were requested)" if n < wanted else ""
        err().print(f"{out}: {count_noun(n, 'answer')} to label{fewer}", markup=False, soft_wrap=True)
