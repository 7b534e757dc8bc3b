"""``ke annotate RUN``: labels by hand, written out and read back."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, RunFolder, count_noun, err, split_options
from ke_core.app import options as shared


@click.command("annotate")
@shared.run_argument
@click.option("--sample", type=click.IntRange(1), default=None, metavar="N", help="How many answers. [default: 200]")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="SHEET.csv", help="The sheet to write.")
@click.option(
    "--read",
    "sheet",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="SHEET.csv",
    help="The sheet to read back.",
)
@click.option("--seed", default=0, show_default=True, help="Draws the answers.")
@click.option("--judge", default="", metavar="NAME", help="Whose verdicts. [default: the last on record]")
@click.option("--force", is_flag=True, help="Write the sheet even if there is one already.")
@shared.component_options
@shared.data_dir
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
) -> None:
    """Write a sheet of answers to be labeled by hand, and read it back with the judge's agreement.

    Phases, styles, aspects and the judge's verdicts have their share of the sample; the verdicts are not in the sheet.
    Write right, wrong, stale (right before the edit) or unsure into its column label. Into error-types (and the column
    of any other metric that sorts answers) you may write what kind of error a wrong answer is.

    \b
    Example:
      ke annotate runs/mello-atlas-1a2b3c4d --sample 200 --out sheet.csv
      ke annotate runs/mello-atlas-1a2b3c4d --read sheet.csv
    """  # fmt: skip
    from ke_core.app import out as shown  # noqa: PLC0415
    from ke_plugin_analysis.annotating import read_labels, write_labels  # noqa: PLC0415
    from ke_plugin_analysis.report.labels import labels_page  # noqa: PLC0415

    if (out is None) == (sheet is None):
        raise click.UsageError("say --out SHEET.csv to write a sheet, or --read SHEET.csv to read one back")
    folder, where = RunFolder.open(run), str(data_dir) if data_dir else ""
    if sheet is not None:
        if sample is not None:
            raise click.UsageError("--sample belongs to --out")
        found = read_labels(folder, app.catalog, sheet, judge=judge, options=split_options(options), data_dir=where)
        shown().print(labels_page(found))
    elif out is not None:
        if options:
            raise click.UsageError("-o belongs to --read: the sheet is the same whatever the options")
        if out.exists() and not force:
            raise click.UsageError(f"{out} is there already, maybe with labels; --force writes over it")
        wanted = sample or 200
        n = write_labels(folder, app.catalog, out, sample=wanted, seed=seed, judge=judge, data_dir=where)
        fewer = f" (there are no more, of {wanted:,} wanted)" if n < wanted else ""
        err().print(f"{out}: {count_noun(n, 'answer')} to label{fewer}", markup=False, soft_wrap=True)
