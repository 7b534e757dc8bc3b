"""``ke import FILE``: others' predictions as a run on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import App, count_noun, err, load_report, print_report, split_options
from ke_core.app import options as shared


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--dataset", required=True, metavar="NAME", help="The benchmark that the predictions are for.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="RUN",
    help="The run folder; of several editors in FILE, the folder of their run folders.",
)
@click.option("--model", default="", metavar="TEXT", help="What answered, as it is to stand in reports.")
@click.option(
    "--edited-form",
    type=click.Choice(["question", "cloze"]),
    default="question",
    show_default=True,
    help="How the fact of an edit was asked: what counts as right depends on it.",
)
@click.option(
    "--missing",
    type=click.Choice(["skip", "wrong"]),
    default="skip",
    show_default=True,
    help="What a question is that FILE leaves out of a case it has: left out of scores, with the reason, or "
    "wrong (for logs that stop at the first right wording).",
)
@click.option("--judge", default="", metavar="NAME", help="Who says what is right. [default: the dataset's]")
@shared.component_options
@shared.data_dir
@click.pass_obj
def command(app: App, /, *, file: Path, out: Path, judge: str, data_dir: Path | None, **given: Any) -> None:
    """Take others' predictions into a run folder, judge them and score them.

    FILE holds a JSON object a line: case, query (its id, or the question itself) and text; and where they are needed
    phase (after), style (own), editor, batch (cases edited together) and edited (false for a control). `ke datasets
    sample NAME` shows cases.

    \b
    Example: ke import theirs.jsonl --dataset mquake-cf-3k --model gpt-j-6b --out runs/theirs
    """  # fmt: skip
    from ke_plugin_analysis.importing import ImportRequest, import_file  # noqa: PLC0415

    request = ImportRequest(
        file=file,
        dataset=given["dataset"],
        model=given["model"],
        options=split_options(given["options"]),
        data_dir=str(data_dir or ""),
        judge=judge,
        edited_form=given["edited_form"],
        missing=given["missing"],
    )
    runs = import_file(request, app.catalog, out)
    for run in runs:
        told = f"{run.folder.path}: {count_noun(run.answers, 'answer')}"
        told += f", {count_noun(run.left_out, 'question')} left out" if run.left_out else ""
        told += f", {count_noun(run.absent, 'case')} not in {file.name}" if run.absent else ""
        err().print(told, markup=False, soft_wrap=True)
    print_report(app, [load_report(run.folder, app.catalog) for run in runs], [run.folder.path for run in runs])
