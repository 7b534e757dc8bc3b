"""``ke import FILE``: import predictions of other tools as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import App, completion, count_noun, err, load_report, print_report, split_options
from ke_core.app import options as shared


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@shared.section(
    "Predictions",
    click.option(
        "--dataset",
        required=True,
        metavar="NAME",
        shell_complete=completion.component("dataset"),
        help="Benchmark of the predictions.",
    ),
    click.option("--model", default="", metavar="TEXT", help="Name of the model, for reports."),
    click.option(
        "--edited-form",
        type=click.Choice(["question", "cloze"]),
        default="question",
        show_default=True,
        help="Form of the prompt that tested an edit. It decides which answers are correct.",
    ),
    click.option(
        "--missing",
        type=click.Choice(["skip", "wrong"]),
        default="skip",
        show_default=True,
        help="Questions that FILE lacks, in a case that it contains: skip them, or count them as wrong (for "
        "logs that stop at the first correct wording).",
    ),
    shared.component_options,
    shared.data_dir,
)
@shared.section(
    "Run",
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        required=True,
        metavar="RUN",
        help="Run folder; parent of the run folders if FILE has several editors.",
    ),
    shared.judge_option,
    shared.json_option,
)
@click.pass_obj
def command(
    app: App, /, *, file: Path, out: Path, judge: str, data_dir: Path | None, as_json: bool, **given: Any
) -> None:
    """Import predictions of other tools as a run.

    The predictions are judged and scored. FILE has one JSON object per line, with the fields case, query (its id, or
    the question) and text; optional fields are phase (default after), style (default: own, the method's own
    prompt; before the edits, the first style of the dataset), editor, batch (cases edited together) and edited (false
    for a case whose edits were withheld). `ke datasets sample NAME` prints cases.

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
        words = f"{run.folder.path}: {count_noun(run.answers, 'answer')}"
        words += f", {count_noun(run.left_out, 'question')} left out" if run.left_out else ""
        words += f", {count_noun(run.absent, 'case')} not in {file.name}" if run.absent else ""
        err().print(words, markup=False, soft_wrap=True)
    reported = [load_report(run.folder, app.catalog) for run in runs]
    print_report(app, reported, [run.folder.path for run in runs], as_json=as_json, data_dir=request.data_dir)
